// GET /v1/usage: the status of a key. It is registered before the rate limit, so it is free and works while the key is limited or
// banned. An isolate calls the key's object for it at most once a second.

import { Hono } from "hono";
import { respondJson } from "../../http/respond.ts";
import { Cache } from "../../lib/cache.ts";
import type { KeyRequest } from "../../limits/isolate/caller.ts";
import { type Keys, type KeysEnv, setCaller } from "../identify.ts";
import { setOutlook } from "../rate-limit.ts";
import { MAX_USAGE_AGE_MS, usageBody } from "./usage-body.ts";

/** Together about 5 MB of the 128 that an isolate has. */
const MAX_ANSWERS = 1_000;

type Answer = Awaited<ReturnType<Keys["readUsage"]>>;

export function usageRoute(keys: Keys) {
  const answers = new Cache<Answer, KeyRequest>({
    load: (_keyId, request) => keys.readUsage(request),
    freshMs: MAX_USAGE_AGE_MS,
    failureMs: MAX_USAGE_AGE_MS,
    maxSize: MAX_ANSWERS,
  });

  return new Hono<KeysEnv>().get("/", async (c, next) => {
    const request = c.get("keyRequest");
    if (request === undefined) return next();
    if (c.get("caller") === undefined) setCaller(c, await keys.identify(request));
    const key = c.get("caller")?.key;
    // Without a valid key, the rate limit counts the request by address, and it is refused.
    if (key === undefined) return next();
    const { days, peek } = await answers.get(request.credential.id, request);
    // The windows are those of now, because the cached answer may be older than the last response.
    const outlook = peek();
    const { bannedUntilMs, windows } = outlook;
    // The headers show a ban, but this request is not refused.
    setOutlook(c, { ...outlook, admitted: true });
    const body = usageBody(key.plan, windows, bannedUntilMs, days);
    c.get("headers")["Cache-Control"] = "no-store";
    return respondJson(c, JSON.stringify(body), 200);
  });
}
