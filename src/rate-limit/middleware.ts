// Lets a request through if its caller has requests left. A valid key is counted by its own Durable Object, exactly; other
// requests by client address, in memory.

import type { Context, MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { clientAddress } from "../http/client-address.ts";
import { errorResponse } from "../http/errors.ts";
import { noteFailure } from "../http/log.ts";
import { keylessRequests } from "./anonymous.ts";
import { availableMs, namedWindow, secondsToReset } from "./headers.ts";
import { countRequest } from "./isolate/limiter-clients.ts";
import type { Decision } from "./windows.ts";

/** Counts the request and sets `decision`. Answers `rate_limit_exceeded` or `key_banned`. */
export function rateLimit(): MiddlewareHandler<AppEnv> {
  return async function rateLimit(c, next) {
    const caller = c.get("caller");
    const key = caller?.key;
    const refusal = caller?.refusal;
    const counted =
      key === undefined
        ? (refusal ?? keylessRequests.take(clientAddress(c.req), c.get("nowMs")))
        : countRequest(c.env.RATE_LIMITER, key, (error) => noteFailure(c, "limiter_unavailable", error));
    const decision = counted instanceof Promise ? await counted : counted;
    c.set("decision", decision);
    if (decision.admitted) return next();
    const which = refusal === undefined ? " without a valid API key" : " with unknown API keys";
    return refuse(c, decision, key === undefined ? which : "");
  };
}

/** The error says what stands against the request and when it no longer does. */
function refuse(c: Context<AppEnv>, decision: Decision, which: string): Response {
  const name = namedWindow(decision);
  const { limit } = decision.windows[name] ?? decision.windows.minute;
  const retry = `retry in ${secondsToReset(decision, name)} s, at ${instant(availableMs(decision, name))}`;
  const headers = { "Cache-Control": "no-store" };
  if (decision.bannedUntilMs !== undefined) {
    const end = instant(decision.bannedUntilMs);
    const reason = `the API key is banned until ${end}, because it kept sending requests after a 429`;
    return errorResponse(c, { code: "key_banned", message: `${reason}; ${retry}`, headers });
  }
  const message = `all ${limit} requests per ${name}${which} are used up; ${retry}`;
  return errorResponse(c, { code: "rate_limit_exceeded", message, headers });
}

function instant(ms: number): string {
  return new Date(ms).toISOString().replace(".000Z", "Z");
}
