// Lets a request through if its caller has requests left. A valid key is counted by its own Durable Object,
// exactly; anybody else by address, in memory. A take is never repeated: whether one that failed was counted
// is unknown.

import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { ApiError } from "../errors.ts";
import { clientAddress, keylessRequests } from "./address-meter.ts";
import { namedWindow, secondsToReset } from "./headers.ts";
import { type Decision, resetMs } from "./window.ts";

/** Counts the request and sets `decision`. Throws `rate_limit_exceeded`. */
export function rateLimit(): MiddlewareHandler<AppEnv> {
  return async function rateLimit(c, next) {
    const { key } = c.var.caller;
    const decision =
      key === undefined
        ? keylessRequests.take(clientAddress(c.req), c.var.nowMs)
        : await c.env.RATE_LIMITER.getByName(key.id).take(key.limits);
    c.set("decision", decision);
    if (!decision.admitted)
      throw rateLimitExceeded(decision, key === undefined ? " without a valid API key" : "");
    await next();
  };
}

/** The error says which window is used up and when it is whole again. */
function rateLimitExceeded(decision: Decision, who: string): ApiError {
  const window = namedWindow(decision);
  const seconds = secondsToReset(window, decision.nowMs);
  const time = new Date(resetMs(window)).toISOString().replace(".000Z", "Z");
  const message = `all ${window.limit} requests per ${window.name}${who} are used up; retry in ${seconds} s, at ${time}`;
  return new ApiError("rate_limit_exceeded", message, { "Cache-Control": "no-store" });
}
