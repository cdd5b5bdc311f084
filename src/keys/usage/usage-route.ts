// GET /v1/usage: the status of a key. It is registered before the rate limit, so it is free and works while the key is limited or
// banned.

import { Hono } from "hono";
import { respondJson } from "../../http/respond.ts";
import type { KeysEnv, Limiter } from "../limiter.ts";
import { usageBody } from "./usage-body.ts";

export function usageRoute(limiter: Limiter) {
  return new Hono<KeysEnv>().get("/", async (c, next) => {
    const usage = await limiter.usage(c);
    // Without a valid key, the rate limit counts the request by address, and it is refused.
    if (usage === undefined) return next();
    const { key, outlook, days } = usage;
    const body = usageBody(key.plan, outlook, days);
    c.get("headers")["Cache-Control"] = "no-store";
    return respondJson(c, JSON.stringify(body), 200);
  });
}
