// The rate-limit headers of a decision.

import { type Outlook, remaining, resetMs, shortest, type Window } from "./windows.ts";

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
  const { windows } = decision;
  let policy = "";
  let state = "";
  for (const name in windows) {
    const separator = policy === "" ? "" : ", ";
    const { limit, seconds } = windows[name] as Window;
    policy += `${separator}"${name}";q=${limit};w=${seconds}`;
    state += `${separator}"${name}";r=${left(decision, name)};t=${secondsToReset(decision, name)}`;
  }
  const name = tighterWindow(decision);
  headers[LIMIT_HEADER.rateLimitLimit] = `${windowOf(decision, name).limit}`;
  headers[LIMIT_HEADER.rateLimitRemaining] = `${left(decision, name)}`;
  headers[LIMIT_HEADER.rateLimitReset] = `${availableMs(decision, name) / 1000}`;
  headers[LIMIT_HEADER.rateLimitPolicy] = policy;
  headers[LIMIT_HEADER.rateLimit] = state;
  if (!decision.admitted) headers[LIMIT_HEADER.retryAfter] = `${secondsToReset(decision, name)}`;
  return headers;
}

/**
 * The tighter window: the one with the fewest requests left, which after a refusal is the one that refused; if tied, the one that resets
 * last. During a ban it is the shortest, unless another one is used up and resets after the ban.
 */
export function tighterWindow(decision: Outlook): string {
  let tighter: string | undefined;
  for (const name in decision.windows) {
    const isTighter = tighter === undefined || isAtLeastAsTight(decision, name, tighter);
    if (isTighter) tighter = name;
  }
  if (tighter === undefined) throw new RangeError("there is no window");
  return tighter;
}

/** Whether a window is tighter than a shorter one. */
function isAtLeastAsTight(decision: Outlook, name: string, shorter: string): boolean {
  const fewer = left(decision, shorter) - left(decision, name);
  if (fewer !== 0) return fewer > 0;
  return decision.bannedUntilMs === undefined || availableMs(decision, name) > availableMs(decision, shorter);
}

/** The requests that a window has left: 0 during a ban. */
export function left(decision: Outlook, name: string): number {
  return decision.bannedUntilMs === undefined ? remaining(windowOf(decision, name)) : 0;
}

/** When a window will have more requests left (Unix time, a whole second): at its reset, or at the end of a ban. */
export function availableMs(decision: Outlook, name: string): number {
  const { bannedUntilMs } = decision;
  const window = windowOf(decision, name);
  if (bannedUntilMs === undefined) return resetMs(window);
  return remaining(window) > 0 ? bannedUntilMs : Math.max(bannedUntilMs, resetMs(window));
}

/** Seconds until `availableMs`, rounded up, so at least 1. Waiting that long is always enough. */
export function secondsToReset(decision: Outlook, name: string): number {
  return Math.ceil((availableMs(decision, name) - decision.nowMs) / 1000);
}

function windowOf({ windows }: Outlook, name: string): Window {
  return windows[name] ?? shortest(windows);
}
