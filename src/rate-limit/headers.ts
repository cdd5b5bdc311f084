// The rate-limit headers of a decision. Nothing else in the service sets any of them.

import type { Decision, Window, WindowName } from "./windows.ts";
import { remaining, resetMs, WINDOW_SECONDS } from "./windows.ts";

/**
 * The headers of a decision: X-RateLimit-* (contract, section 8; Reset in epoch seconds), RateLimit and
 * RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11; `t` in seconds from the decision), and on a
 * refusal Retry-After (RFC 9110, section 10.2.3; in seconds from the decision, never before Reset).
 */
export function headersOf(decision: Decision): Record<string, string> {
  const { minute, day } = decision.windows;
  const name = tighterWindow(decision);
  let policy = `"minute";q=${minute.limit};w=${WINDOW_SECONDS.minute}`;
  let state = `"minute";r=${left(decision, "minute")};t=${secondsToReset(decision, "minute")}`;
  if (day !== undefined) {
    policy += `, "day";q=${day.limit};w=${WINDOW_SECONDS.day}`;
    state += `, "day";r=${left(decision, "day")};t=${secondsToReset(decision, "day")}`;
  }
  const headers: Record<string, string> = {
    "X-RateLimit-Limit": `${windowOf(decision, name).limit}`,
    "X-RateLimit-Remaining": `${left(decision, name)}`,
    "X-RateLimit-Reset": `${availableMs(decision, name) / 1000}`,
    "RateLimit-Policy": policy,
    RateLimit: state,
  };
  if (!decision.admitted) headers["Retry-After"] = `${secondsToReset(decision, name)}`;
  return headers;
}

/**
 * The tighter window: the one with fewer requests left, which after a refusal is the one that refused; if both have the same, the
 * one that resets last, which is the day. During a ban that is the minute, unless the day is used up beyond the ban's end.
 */
export function tighterWindow(decision: Decision): WindowName {
  if (decision.windows.day === undefined) return "minute";
  const fewer = left(decision, "day") - left(decision, "minute");
  if (fewer !== 0) return fewer < 0 ? "day" : "minute";
  const later = availableMs(decision, "day") - availableMs(decision, "minute");
  return later > 0 || decision.bannedUntilMs === undefined ? "day" : "minute";
}

/** The requests that a window has left: none during a ban. */
export function left(decision: Decision, name: WindowName): number {
  return decision.bannedUntilMs === undefined ? remaining(windowOf(decision, name)) : 0;
}

/** When a window has more left than now (Unix time, a whole second): after its reset, or after a ban that ends later. */
export function availableMs(decision: Decision, name: WindowName): number {
  const { bannedUntilMs } = decision;
  const window = windowOf(decision, name);
  if (bannedUntilMs === undefined) return resetMs(window, name);
  return remaining(window) > 0 ? bannedUntilMs : Math.max(bannedUntilMs, resetMs(window, name));
}

/** Whole seconds, rounded up, so at least 1: that instant lies ahead. Waiting that long is always enough. */
export function secondsToReset(decision: Decision, name: WindowName): number {
  return Math.ceil((availableMs(decision, name) - decision.nowMs) / 1000);
}

function windowOf({ windows }: Decision, name: WindowName): Window {
  return windows[name] ?? windows.minute;
}
