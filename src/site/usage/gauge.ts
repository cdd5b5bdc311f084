// The gauge of one window: an arc for the used share, and the figures. It is created once and then updated, so that it animates.

import type { UsageWindow } from "../../keys/usage/usage-body.ts";
import { gaugeFigures } from "./figures.ts";

/** The arc is three quarters of a circle. Lengths are percentages. */
const ARC = `
  <svg viewBox="0 0 120 104" aria-hidden="true">
    <path class="track" d="M 24.640 95.360 A 50 50 0 1 1 95.360 95.360" pathLength="100"/>
    <path class="used" d="M 24.640 95.360 A 50 50 0 1 1 95.360 95.360" pathLength="100"/>
  </svg>`;

/** `nowMs` is Unix time. */
export function drawGauge(place: HTMLElement, title: string, window: UsageWindow, nowMs: number): void {
  if (place.childElementCount === 0) {
    place.innerHTML = `
      <h2></h2>
      <div class="dial" role="meter" aria-valuemin="0">${ARC}<strong></strong><span class="of"></span></div>
      <p class="left"></p>
      <p class="reset"></p>`;
  }
  const { used, of, left, reset, percent, level, current, description } = gaugeFigures(window, nowMs);
  set(place, "h2", title);
  set(place, "strong", used);
  set(place, ".of", of);
  set(place, ".left", left);
  set(place, ".reset", reset);
  const dial = place.querySelector(".dial");
  dial?.setAttribute("aria-label", title);
  dial?.setAttribute("aria-valuemax", `${window.limit}`);
  dial?.setAttribute("aria-valuenow", `${current}`);
  dial?.setAttribute("aria-valuetext", description);
  dial?.querySelector(".used")?.setAttribute("stroke-dasharray", `${percent} 100`);
  place.dataset.level = level;
}

function set(place: Element, selector: string, text: string): void {
  const part = place.querySelector(selector);
  if (part !== null && part.textContent !== text) part.textContent = text;
}
