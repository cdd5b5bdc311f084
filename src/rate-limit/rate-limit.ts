// Lets a request through if its caller has requests left. A valid key is counted by its own Durable Object,
// exactly; anybody else by address, in memory.

import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { ApiError } from "../errors.ts";
import { noteFailure } from "../log.ts";
import { clientAddress, keylessRequests } from "./address-meter.ts";
import { availableMs, namedWindow, secondsToReset } from "./headers.ts";
import { takeFromKey } from "./key-meter.ts";
import type { Decision } from "./window.ts";

/** Counts the request and sets `decision`. Throws `rate_limit_exceeded` or `key_banned`. */
export function rateLimit(): MiddlewareHandler<AppEnv> {
  return async function rateLimit(c, next) {
    const key = c.var.caller?.key;
    const decision =
      key === undefined
        ? keylessRequests.take(clientAddress(c.req), c.var.nowMs)
        : await takeFromKey(c.env.RATE_LIMITER, key, c.var.nowMs, (error) =>
            noteFailure(c, "limiter_unavailable", error),
          );
    c.set("decision", decision);
    if (!decision.admitted) throw refusal(decision, key === undefined ? " without a valid API key" : "");
    await next();
  };
}

/** The error says what stands against the request and when it no longer does. */
function refusal(decision: Decision, who: string): ApiError {
  const window = namedWindow(decision);
  const atMs = Math.ceil(availableMs(decision, window) / 1000) * 1000;
  const retry = `retry in ${secondsToReset(decision, window)} s, at ${instant(atMs)}`;
  const headers = { "Cache-Control": "no-store" };
  if (decision.bannedUntilMs !== undefined) {
    const end = instant(Math.ceil(decision.bannedUntilMs / 1000) * 1000);
    const reason = `the API key is banned until ${end}, because it was used again and again after a 429`;
    return new ApiError("key_banned", `${reason}; ${retry}`, headers);
  }
  const message = `all ${window.limit} requests per ${window.name}${who} are used up; ${retry}`;
  return new ApiError("rate_limit_exceeded", message, headers);
}

function instant(ms: number): string {
  return new Date(ms).toISOString().replace(".000Z", "Z");
}
