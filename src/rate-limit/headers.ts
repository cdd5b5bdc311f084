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
    const decision = c.var.decision ?? uncounted(clientAddress(c.req), c.var.nowMs);
    for (const [name, value] of Object.entries(headersOf(decision))) c.header(name, value);
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
  const { admitted, nowMs, windows } = decision;
  const named = namedWindow(decision);
  const policy = windows.map(({ name, limit }) => `"${name}";q=${limit};w=${WINDOW_SECONDS[name]}`);
  const state = windows.map((each) => `"${each.name}";r=${remaining(each)};t=${secondsToReset(each, nowMs)}`);
  return {
    "X-RateLimit-Limit": `${named.limit}`,
    "X-RateLimit-Remaining": `${remaining(named)}`,
    "X-RateLimit-Reset": `${resetMs(named) / 1000}`,
    "RateLimit-Policy": policy.join(", "),
    RateLimit: state.join(", "),
    ...(admitted ? {} : { "Retry-After": `${secondsToReset(named, nowMs)}` }),
  };
}

/**
 * The window that a client has to know about: the one with less remaining, which after a refusal is the one that
 * refused; if both have the same, the one that frees last, which is the day.
 */
export function namedWindow({ windows }: Decision): Window {
  return windows.reduce((named, each) => {
    const nearer = remaining(each) - remaining(named);
    if (nearer !== 0) return nearer < 0 ? each : named;
    return resetMs(each) < resetMs(named) ? named : each;
  });
}

/** Whole seconds, rounded up, so at least 1: a reset lies ahead. Waiting that long is always enough. */
export function secondsToReset(window: Window, nowMs: number): number {
  return Math.ceil((resetMs(window) - nowMs) / 1000);
}
