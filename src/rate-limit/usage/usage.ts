// GET /v1/usage: the status of a key. It is registered before the rate limit, so it is free and works while the key is limited or
// banned. An isolate calls the key's object for it at most once a second.

import { type Context, Hono } from "hono";
import { serviceUnavailable } from "../../http/errors.ts";
import { logFailure } from "../../http/log.ts";
import { MESSAGES } from "../../http/messages.ts";
import { respondJson } from "../../http/respond.ts";
import { Cache } from "../../lib/cache.ts";
import type { Limiters } from "../isolate/limiter-client.ts";
import { usageOf } from "../isolate/limiter-clients.ts";
import { type RateLimitEnv, setDecision } from "../middleware.ts";
import type { LimitedKey } from "../protocol.ts";
import { type UsageBody, usageBody } from "./usage-body.ts";

/** How long a response or failure of the object is cached. */
const MAX_AGE_MS = 1_000;

/** Together about 5 MB of the 128 that an isolate has. */
const MAX_ANSWERS = 1_000;

const answers = new Cache<Awaited<ReturnType<typeof usageOf>>, { limiters: Limiters; key: LimitedKey }>({
  load: (_keyId, { limiters, key }) => usageOf(limiters, key),
  lifetimeOf: () => ({ freshMs: MAX_AGE_MS, revalidateMs: MAX_AGE_MS, staleIfErrorMs: 0 }),
  failureMs: () => MAX_AGE_MS,
  maxSize: MAX_ANSWERS,
});

export const usage = new Hono<RateLimitEnv>().get("/", async (c, next) => {
  const key = c.get("caller")?.key;
  // Without a valid key, the rate limit counts the request by address, and it is refused.
  if (key === undefined) return next();

  const { days, decide } = await currentUsage(c, key);
  // The windows are those of now, because the cached answer may be older than the last response.
  const decision = decide(key);
  const { bannedUntilMs, windows } = decision;
  // The headers show a ban, but this request is not refused.
  setDecision(c, { ...decision, admitted: true });
  const body = usageBody(key.plan, windows, bannedUntilMs, days);
  c.get("headers")["Cache-Control"] = "no-store";
  return respondJson<UsageBody, 200>(c, JSON.stringify(body), 200);
});

/** Throws `service_unavailable`. */
async function currentUsage(c: Context<RateLimitEnv>, key: LimitedKey) {
  try {
    return await answers.get(key.id, { limiters: c.env.RATE_LIMITER, key });
  } catch (error) {
    logFailure(c, "limiter_unavailable", error);
    throw serviceUnavailable(MESSAGES.service_unavailable.limiter, c.get("requestId"));
  }
}
