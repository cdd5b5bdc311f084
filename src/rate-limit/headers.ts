// The rate-limit headers: one pure function makes them from a decision, one middleware writes them. Nothing else in
// the service sets any of them.

import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { clientAddress } from "../http/client-address.ts";
import { keylessRequests } from "./anonymous.ts";
import type { Decision, Window, WindowName } from "./windows.ts";
import { remaining, resetMs, WINDOW_SECONDS } from "./windows.ts";

/**
 * Puts the rate-limit headers on every response below it. It is outermost because headers that are set before
 * a handler ran are lost when the handler fails. A request that was not counted, such as a preflight or
 * one that failed early, shows how its address stands.
 */
export function rateLimitHeaders(): MiddlewareHandler<AppEnv> {
  return async function rateLimitHeaders(c, next) {
    await next();
    const decision = c.get("decision") ?? {
      ...keylessRequests.peek(clientAddress(c.req), c.get("nowMs")),
      // It was not counted, so it was not refused either.
      admitted: true,
    };
    // `c.header` would make a new response for each of them.
    const { headers } = c.res;
    const values = headersOf(decision);
    for (const name in values) headers.set(name, values[name] ?? "");
  };
}

/**
 * The headers of a decision: X-RateLimit-* (contract, section 8; Reset in epoch seconds), RateLimit and
 * RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11; `t` in seconds from the decision), and on a
 * refusal Retry-After (RFC 9110, section 10.2.3; in seconds from the decision, never before Reset).
 */
export function headersOf(decision: Decision): Record<string, string> {
  const { minute, day } = decision.windows;
  const named = namedWindow(decision);
  let policy = `"minute";q=${minute.limit};w=${WINDOW_SECONDS.minute}`;
  let state = `"minute";r=${left(decision, "minute")};t=${secondsToReset(decision, "minute")}`;
  if (day !== undefined) {
    policy += `, "day";q=${day.limit};w=${WINDOW_SECONDS.day}`;
    state += `, "day";r=${left(decision, "day")};t=${secondsToReset(decision, "day")}`;
  }
  const headers: Record<string, string> = {
    "X-RateLimit-Limit": `${windowOf(decision, named).limit}`,
    "X-RateLimit-Remaining": `${left(decision, named)}`,
    "X-RateLimit-Reset": `${availableMs(decision, named) / 1000}`,
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
export function namedWindow(decision: Decision): WindowName {
  if (decision.windows.day === undefined) return "minute";
  const fewer = left(decision, "day") - left(decision, "minute");
  if (fewer !== 0) return fewer < 0 ? "day" : "minute";
  const later = availableMs(decision, "day") - availableMs(decision, "minute");
  return later > 0 || decision.bannedUntilMs === undefined ? "day" : "minute";
}

/** What is left of a window: nothing during a ban. */
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
