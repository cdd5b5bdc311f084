// The gauges of the windows: a bar for the used share, and the figures. A gauge is created once and then updated, so that screen readers
// keep their place.

import { gaugeFigures, type State } from "./figures.ts";

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
    gauge.style.setProperty("--share", `${percent}%`);
    const bar = gauge.querySelector(".bar");
    bar?.setAttribute("aria-valuemax", `${window.limit}`);
    bar?.setAttribute("aria-valuenow", `${current}`);
    bar?.setAttribute("aria-valuetext", description);
  }
}

function newGauge(all: HTMLElement, name: string): HTMLElement {
  const title = name === "day" ? "Today (UTC)" : `This ${name}`;
  const gauge = document.createElement("div");
  gauge.className = "gauge card";
  gauge.id = name;
  gauge.innerHTML = `
    <h2>${title}</h2>
    <p><strong class="used"></strong> <span class="of"></span></p>
    <div class="bar" role="meter" aria-label="${title}" aria-valuemin="0"></div>
    <p class="left"></p>
    <p class="reset"></p>`;
  all.append(gauge);
  return gauge;
}
