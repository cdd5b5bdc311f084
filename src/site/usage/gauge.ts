// The gauges of the windows: of each, an arc for the used share, and the figures. A gauge is created once and then updated, so that screen
// readers keep their place.

import { gaugeFigures, type State } from "./figures.ts";

/** The arc is three quarters of a circle. Lengths are percentages. */
const ARC = "M 24.640 95.360 A 50 50 0 1 1 95.360 95.360";

/** `nowMs` is Unix time. */
export function drawGauges(all: HTMLElement, state: State, nowMs: number): void {
  for (const [name, window] of Object.entries(state.windows)) {
    const gauge = document.getElementById(name) ?? newGauge(all, name);
    const { percent, level, current, description, ...texts } = gaugeFigures(state, window, nowMs);
    for (const [name, text] of Object.entries(texts)) {
      const part = gauge.querySelector(`.${name}`);
      if (part !== null && part.textContent !== text) part.textContent = text;
    }
    gauge.dataset.level = level;
    gauge.style.setProperty("--characters", `${Math.max(texts.used.length, texts.of.length - 3)}`);
    gauge.querySelector(".share")?.setAttribute("stroke-dasharray", `${percent} 100`);
    const dial = gauge.querySelector(".dial");
    dial?.setAttribute("aria-valuemax", `${window.limit}`);
    dial?.setAttribute("aria-valuenow", `${current}`);
    dial?.setAttribute("aria-valuetext", description);
  }
}

function newGauge(all: HTMLElement, name: string): HTMLElement {
  const title = name === "day" ? "Today (UTC)" : `This ${name}`;
  const gauge = document.createElement("div");
  gauge.className = "gauge";
  gauge.id = name;
  gauge.innerHTML = `
    <h2>${title}</h2>
    <div class="dial" role="meter" aria-label="${title}" aria-valuemin="0">
      <svg viewBox="0 0 120 104" aria-hidden="true">
        <path class="track" d="${ARC}"/>
        <path class="share" d="${ARC}" pathLength="100"/>
      </svg>
      <strong class="used"></strong>
      <span class="of"></span>
    </div>
    <p class="left"></p>
    <p class="reset"></p>`;
  all.append(gauge);
  return gauge;
}
