// Lets a request through if its caller has requests left. A valid key is counted by its own Durable Object,
// exactly; anybody else by address, in memory.

import type { Context, MiddlewareHandler } from "hono";
import { BoundedMap } from "../bounded-map.ts";
import type { AppEnv } from "../env.ts";
import { errorResponse } from "../errors.ts";
import { noteFailure } from "../log.ts";
import { clientAddress, keylessRequests } from "./address-meter.ts";
import { availableMs, namedWindow, secondsToReset } from "./headers.ts";
import { takeFromKey } from "./key-meters.ts";
import type { Decision } from "./window.ts";

const MAX_INSTANTS = 1_000;

/** Counts the request and sets `decision`. Answers `rate_limit_exceeded` or `key_banned`. */
export function rateLimit(): MiddlewareHandler<AppEnv> {
  return async function rateLimit(c, next) {
    const caller = c.get("caller");
    const key = caller?.key;
    const refusal = caller?.refusal;
    const taken =
      key === undefined
        ? (refusal ?? keylessRequests.take(clientAddress(c.req), c.get("nowMs")))
        : takeFromKey(c.env.RATE_LIMITER, key, c.get("nowMs"), (error) =>
            noteFailure(c, "limiter_unavailable", error),
          );
    const decision = taken instanceof Promise ? await taken : taken;
    c.set("decision", decision);
    if (decision.admitted) return next();
    const counted = refusal === undefined ? " without a valid API key" : " with unknown API keys";
    return refuse(c, decision, key === undefined ? counted : "");
  };
}

/** The error says what stands against the request and when it no longer does. */
function refuse(c: Context<AppEnv>, decision: Decision, who: string): Response {
  const window = namedWindow(decision);
  const atMs = Math.ceil(availableMs(decision, window) / 1000) * 1000;
  const retry = `retry in ${secondsToReset(decision, window)} s, at ${instant(atMs)}`;
  const headers = { "Cache-Control": "no-store" };
  if (decision.bannedUntilMs !== undefined) {
    const end = instant(Math.ceil(decision.bannedUntilMs / 1000) * 1000);
    const reason = `the API key is banned until ${end}, because it was used again and again after a 429`;
    return errorResponse(c, { code: "key_banned", message: `${reason}; ${retry}`, headers });
  }
  const message = `all ${window.limit} requests per ${window.name}${who} are used up; ${retry}`;
  return errorResponse(c, { code: "rate_limit_exceeded", message, headers });
}

/** A time in whole seconds as text. A flood asks for the same few, and to make one takes longer than to look it up. */
function instant(ms: number): string {
  const known = instants.get(ms);
  if (known !== undefined) return known;
  const text = new Date(ms).toISOString().replace(".000Z", "Z");
  instants.set(ms, text);
  return text;
}
const instants = new BoundedMap<number, string>(MAX_INSTANTS);
