// The rate-limit headers of a decision.

import type { Outlook, Window, WindowName } from "./windows.ts";
import { remaining, resetMs, WINDOW_SECONDS } from "./windows.ts";

/** The names of the headers. */
export const LIMIT_HEADER = {
  rateLimitLimit: "X-RateLimit-Limit",
  rateLimitRemaining: "X-RateLimit-Remaining",
  rateLimitReset: "X-RateLimit-Reset",
  rateLimit: "RateLimit",
  rateLimitPolicy: "RateLimit-Policy",
  retryAfter: "Retry-After",
} as const;

/**
 * Adds the headers of a decision to `headers`: X-RateLimit-* ("Rate limits" in the guide; Reset is Unix time in seconds), RateLimit and
 * RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11), and on a refusal Retry-After (RFC 9110, section 10.2.3), which
 * never ends before Reset. `t` and Retry-After are seconds from the decision.
 */
export function headersOf(decision: Outlook, headers: Record<string, string> = {}): Record<string, string> {
  const { minute, day } = decision.windows;
  const name = tighterWindow(decision);
  let policy = `"minute";q=${minute.limit};w=${WINDOW_SECONDS.minute}`;
  let state = `"minute";r=${left(decision, "minute")};t=${secondsToReset(decision, "minute")}`;
  if (day !== undefined) {
    policy += `, "day";q=${day.limit};w=${WINDOW_SECONDS.day}`;
    state += `, "day";r=${left(decision, "day")};t=${secondsToReset(decision, "day")}`;
  }
  headers[LIMIT_HEADER.rateLimitLimit] = `${windowOf(decision, name).limit}`;
  headers[LIMIT_HEADER.rateLimitRemaining] = `${left(decision, name)}`;
  headers[LIMIT_HEADER.rateLimitReset] = `${availableMs(decision, name) / 1000}`;
  headers[LIMIT_HEADER.rateLimitPolicy] = policy;
  headers[LIMIT_HEADER.rateLimit] = state;
  if (!decision.admitted) headers[LIMIT_HEADER.retryAfter] = `${secondsToReset(decision, name)}`;
  return headers;
}

/**
 * The tighter window: the one with fewer requests left, which after a refusal is the one that refused; if tied, the one that
 * resets later: the day. During a ban it is the minute, unless the day is used up and resets after the ban.
 */
export function tighterWindow(decision: Outlook): WindowName {
  if (decision.windows.day === undefined) return "minute";
  const fewer = left(decision, "day") - left(decision, "minute");
  if (fewer !== 0) return fewer < 0 ? "day" : "minute";
  const later = availableMs(decision, "day") - availableMs(decision, "minute");
  return later > 0 || decision.bannedUntilMs === undefined ? "day" : "minute";
}

/** The requests that a window has left: 0 during a ban. */
export function left(decision: Outlook, name: WindowName): number {
  return decision.bannedUntilMs === undefined ? remaining(windowOf(decision, name)) : 0;
}

/** When a window will have more requests left (Unix time, a whole second): at its reset, or at the end of a ban. */
export function availableMs(decision: Outlook, name: WindowName): number {
  const { bannedUntilMs } = decision;
  const window = windowOf(decision, name);
  if (bannedUntilMs === undefined) return resetMs(window, name);
  return remaining(window) > 0 ? bannedUntilMs : Math.max(bannedUntilMs, resetMs(window, name));
}

/** Seconds until `availableMs`, rounded up, so at least 1. Waiting that long is always enough. */
export function secondsToReset(decision: Outlook, name: WindowName): number {
  return Math.ceil((availableMs(decision, name) - decision.nowMs) / 1000);
}

function windowOf({ windows }: Outlook, name: WindowName): Window {
  return windows[name] ?? windows.minute;
}
