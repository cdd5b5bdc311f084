// The rate-limit headers: one pure function makes them from a decision, one middleware writes them. Nothing else in
// the service sets any of them.

import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { clientAddress, keylessRequests } from "./address-meter.ts";
import { type Decision, remaining, resetMs, WINDOW_SECONDS, type Window } from "./window.ts";

/**
 * Puts the rate-limit headers on every response below it. It is outermost because headers that are set before
 * a handler ran are lost when the handler fails. A request that was not counted, such as a preflight or
 * one that failed early, shows how its address stands.
 */
export function rateLimitHeaders(): MiddlewareHandler<AppEnv> {
  return async function rateLimitHeaders(c, next) {
    await next();
    const decision = c.get("decision") ?? uncounted(clientAddress(c.req), c.get("nowMs"));
    // `c.header` would make a new response for each of them.
    const { headers } = c.res;
    const values = headersOf(decision);
    for (const name in values) headers.set(name, values[name] ?? "");
  };
}

/** How an address stands. The request was not counted, so it was not refused either. */
function uncounted(address: string, nowMs: number): Decision {
  return { ...keylessRequests.peek(address, nowMs), admitted: true };
}

/**
 * The headers of a decision: X-RateLimit-* (contract, section 8; Reset in epoch seconds), RateLimit and
 * RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11; `t` in seconds from the decision), and on a
 * refusal Retry-After (RFC 9110, section 10.2.3; in seconds from the decision, never before Reset).
 */
export function headersOf(decision: Decision): Record<string, string> {
  const named = namedWindow(decision);
  let policy = "";
  let state = "";
  for (const each of decision.windows) {
    const separator = policy === "" ? "" : ", ";
    policy += `${separator}"${each.name}";q=${each.limit};w=${WINDOW_SECONDS[each.name]}`;
    state += `${separator}"${each.name}";r=${left(decision, each)};t=${secondsToReset(decision, each)}`;
  }
  const headers: Record<string, string> = {
    "X-RateLimit-Limit": `${named.limit}`,
    "X-RateLimit-Remaining": `${left(decision, named)}`,
    "X-RateLimit-Reset": `${Math.ceil(availableMs(decision, named) / 1000)}`,
    "RateLimit-Policy": policy,
    RateLimit: state,
  };
  if (!decision.admitted) headers["Retry-After"] = `${secondsToReset(decision, named)}`;
  return headers;
}

/**
 * The window that a client has to know about: the one with less left, which after a refusal is the one that refused; if
 * both have the same, the one that frees last, which is the day. During a ban that is the minute, unless the day is
 * used up beyond the ban's end.
 */
export function namedWindow(decision: Decision): Window {
  return decision.windows.reduce((named, each) => {
    const nearer = left(decision, each) - left(decision, named);
    if (nearer !== 0) return nearer < 0 ? each : named;
    const later = availableMs(decision, each) - availableMs(decision, named);
    return later > 0 || (later === 0 && decision.bannedUntilMs === undefined) ? each : named;
  });
}

/** What is left of a window: nothing during a ban. */
export function left({ bannedUntilMs }: Decision, window: Window): number {
  return bannedUntilMs === undefined ? remaining(window) : 0;
}

/** When a window has more left than now (Unix time): after its reset, or after the ban if that alone stands against it. */
export function availableMs({ bannedUntilMs }: Decision, window: Window): number {
  if (bannedUntilMs === undefined) return resetMs(window);
  return remaining(window) > 0 ? bannedUntilMs : Math.max(bannedUntilMs, resetMs(window));
}

/** Whole seconds, rounded up, so at least 1: that instant lies ahead. Waiting that long is always enough. */
export function secondsToReset(decision: Decision, window: Window): number {
  return Math.ceil((availableMs(decision, window) - decision.nowMs) / 1000);
}
