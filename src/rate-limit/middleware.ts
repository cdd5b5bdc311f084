// Enforces the rate limit and sets its headers. A valid key's requests are counted exactly, by its Durable Object; other requests
// are counted by client address, in memory.

import type { Context, MiddlewareHandler } from "hono";
import { clientAddress } from "../http/client-address.ts";
import { errorResponse } from "../http/errors.ts";
import { logFailure } from "../http/log.ts";
import { MESSAGES } from "../http/messages.ts";
import type { HttpEnv } from "../http/request-context.ts";
import { anonymousRequests } from "./anonymous.ts";
import { availableMs, headersOf, left, secondsToReset, tighterWindow } from "./headers.ts";
import { countRequest } from "./isolate/limiter-clients.ts";
import type { Plan } from "./plans.ts";
import type { LimitedKey } from "./protocol.ts";
import type { Decision } from "./windows.ts";

export interface RateLimitEnv extends HttpEnv {
  Variables: HttpEnv["Variables"] & {
    /** Set by the authentication. `refusal`: the key was not looked up, and the request is refused. */
    caller?: { key?: LimitedKey & { plan: Plan }; refusal?: Decision };
    /** Set by `rateLimit` and GET /v1/usage; absent if the request did not get that far. */
    decision?: Decision;
  };
}

/** Adds the rate-limit headers of the client's address to a response without a decision, such as that of a preflight. */
export const rateLimitHeaders: MiddlewareHandler<RateLimitEnv> = async (c, next) => {
  await next();
  if (c.get("decision") !== undefined) return;
  const decision = anonymousRequests.peek(clientAddress(c.req), c.get("nowMs"));
  // The request was neither counted nor refused.
  const headers = headersOf({ ...decision, admitted: true });
  for (const [name, value] of Object.entries(headers)) c.res.headers.set(name, value);
};

/** Counts the request and sets `decision`. Answers `rate_limit_exceeded` or `key_banned`. */
export const rateLimit: MiddlewareHandler<RateLimitEnv> = async (c, next) => {
  const { key, refusal } = c.get("caller") ?? {};
  const counted =
    key === undefined
      ? (refusal ?? anonymousRequests.count(clientAddress(c.req), c.get("nowMs")))
      : countRequest(c.env.RATE_LIMITER, key, (error) => logFailure(c, "limiter_unavailable", error));
  const decision = counted instanceof Promise ? await counted : counted;
  setDecision(c, decision);
  if (decision.admitted) return next();
  const limited = MESSAGES.rate_limit_exceeded;
  const withoutKey = refusal === undefined ? limited.withoutKey : limited.unknownKeys;
  return refuse(c, decision, key === undefined ? withoutKey : limited.key);
};

/** Sets `decision`, its headers and its log fields. */
export function setDecision(c: Context<RateLimitEnv>, decision: Decision): void {
  c.set("decision", decision);
  headersOf(decision, c.get("headers"));
  const window = tighterWindow(decision);
  const log = c.get("log");
  log.window = window;
  log.remaining = left(decision, window);
}

type Exceeded = (typeof MESSAGES.rate_limit_exceeded)["key"];

function refuse(c: Context<RateLimitEnv>, decision: Decision, exceeded: Exceeded): Response {
  const name = tighterWindow(decision);
  const { limit } = decision.windows[name] ?? decision.windows.minute;
  const retry = { seconds: secondsToReset(decision, name), atMs: availableMs(decision, name) };
  const headers = { "Cache-Control": "no-store" };
  if (decision.bannedUntilMs !== undefined) {
    const message = MESSAGES.key_banned.ban(decision.bannedUntilMs, retry);
    return errorResponse(c, { code: "key_banned", message, headers });
  }
  return errorResponse(c, { code: "rate_limit_exceeded", message: exceeded(limit, name, retry), headers });
}
