// What the usage page says about a key's state and windows. `nowMs` is Unix time.

import type { UsageBody, UsageWindow } from "../../keys/usage/usage-body.ts";
import { capitalize, formatInstant, formatNumber } from "../text.ts";

/** The plan, and the ban and the exhausted window if there are any. */
export function stateText({ plan, windows, bannedUntil }: UsageBody, nowMs: number): string {
  const onPlan = `This key is on the ${capitalize(plan)} plan.`;
  // Of several exhausted windows, the longest.
  const [window, { reset: fullUntil }] = Object.entries(windows).findLast(
    ([, { remaining }]) => remaining === 0,
  ) ?? ["", { reset: 0 }];
  const isBanned = bannedUntil !== null && bannedUntil * 1000 > nowMs;
  const ban = isBanned
    ? ` It is temporarily banned until ${formatInstant(bannedUntil)} for ignoring 429 responses.`
    : "";
  const full =
    fullUntil > (isBanned ? bannedUntil : 0)
      ? ` Its limit per ${window} is exhausted until ${formatInstant(fullUntil)}.`
      : "";
  return onPlan + ban + full;
}

/** The texts of a gauge, the length of its arc in percent, and its level, which decides the colour. */
export function gaugeFigures({ limit, used, remaining, reset }: UsageWindow, nowMs: number) {
  // After a change to a smaller plan, `used` can exceed `limit`.
  const share = Math.min(100, (100 * used) / limit);
  return {
    used: brief(used),
    of: `of ${brief(limit)}`,
    left: `${brief(remaining)} left`,
    reset: `resets in ${duration(reset * 1000 - nowMs)}`,
    percent: used === 0 ? 0 : Math.max(1, share),
    level: remaining === 0 ? "empty" : share >= 80 ? "low" : "fine",
    current: Math.min(used, limit),
    description: `${formatNumber(used)} of ${formatNumber(limit)} used`,
  };
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
