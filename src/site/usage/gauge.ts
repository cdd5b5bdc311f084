// The gauge of one window: an arc for the used share, and the figures. It is created once and then updated, so that it animates.

import type { UsageWindow } from "../../rate-limit/usage/usage-body.ts";
import { formatNumber } from "../text.ts";

/** The arc is three quarters of a circle. Lengths are percentages. */
const ARC = `
  <svg viewBox="0 0 120 104" aria-hidden="true">
    <path class="track" d="M 24.640 95.360 A 50 50 0 1 1 95.360 95.360" pathLength="100"/>
    <path class="used" d="M 24.640 95.360 A 50 50 0 1 1 95.360 95.360" pathLength="100"/>
  </svg>`;

/** `nowMs` is Unix time. */
export function drawGauge(
  place: HTMLElement,
  title: string,
  { limit, used, remaining, reset }: UsageWindow,
  nowMs: number,
): void {
  if (place.childElementCount === 0) {
    place.innerHTML = `
      <h2></h2>
      <div class="dial" role="meter" aria-valuemin="0">${ARC}<strong></strong><span class="of"></span></div>
      <p class="left"></p>
      <p class="reset"></p>`;
  }
  // After a change to a smaller plan, `used` can exceed `limit`.
  const share = Math.min(100, (100 * used) / limit);
  const percent = used === 0 ? 0 : Math.max(1, share);
  set(place, "h2", title);
  set(place, "strong", brief(used));
  set(place, ".of", `of ${brief(limit)}`);
  set(place, ".left", `${brief(remaining)} left`);
  set(place, ".reset", `resets in ${duration(reset * 1000 - nowMs)}`);
  const dial = place.querySelector(".dial");
  dial?.setAttribute("aria-label", title);
  dial?.setAttribute("aria-valuemax", `${limit}`);
  dial?.setAttribute("aria-valuenow", `${Math.min(used, limit)}`);
  dial?.setAttribute("aria-valuetext", `${formatNumber(used)} of ${formatNumber(limit)} used`);
  dial?.querySelector(".used")?.setAttribute("stroke-dasharray", `${percent} 100`);
  place.dataset.level = remaining === 0 ? "empty" : share >= 80 ? "low" : "fine";
}

function set(place: Element, selector: string, text: string): void {
  const part = place.querySelector(selector);
  if (part !== null && part.textContent !== text) part.textContent = text;
}

/** Fits into the dial: `99,999`, `1.2M`. */
function brief(value: number): string {
  return value < 100_000 ? formatNumber(value) : value.toLocaleString("en", { notation: "compact" });
}

/** `40 s`, `11 h 25 min`. */
function duration(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
