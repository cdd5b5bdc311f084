// The lifecycle of a request, in order (DESIGN.md has the picture). The order is part of the contract: HTTPS, rate limit, key,
// method and path, input. Everything before the rate limit is free for clients.

import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { methodNotAllowed } from "hono/method-not-allowed";
import { cors } from "./http/cors.ts";
import { handleError, handleUnknownPath, handleWrongMethod } from "./http/errors.ts";
import { logRequest } from "./http/log.ts";
import { requestContext } from "./http/request-context.ts";
import { requireHttps } from "./http/require-https.ts";
import { serverTiming } from "./http/server-timing.ts";
import { version } from "./http/version.ts";
import { identify } from "./keys/identify.ts";
import { rateLimit, rateLimitHeaders } from "./keys/rate-limit.ts";
import { KEY_POLICY } from "./keys/record.ts";
import { requireKey } from "./keys/require-key.ts";
import { credentialOf, withoutSecrets } from "./keys/secret.ts";
import { findRecord } from "./keys/store.ts";
import { usageRoute } from "./keys/usage/usage-route.ts";
import { RUNTIME } from "./lib/runtime.ts";
import { AddressCounter } from "./limits/address-counter.ts";
import { KnownKeys } from "./limits/isolate/known-keys.ts";
import { PageCache } from "./pets/page-cache.ts";
import { type PetsEnv, prefetch } from "./pets/prefetch.ts";
import { petRoutes } from "./pets/routes.ts";

function createApp() {
  const app = new Hono<PetsEnv>();
  const keys = new KnownKeys({
    policy: KEY_POLICY,
    runtime: RUNTIME,
    credentialOf,
    // `env` is read at each use, because Cloudflare may give a running isolate other bindings.
    objectOf: (id) => env.API_KEYS.getByName(id),
    findRecord: (id) => findRecord(env.KEYS_DB, id),
  });
  const addresses = new AddressCounter();
  const pages = new PageCache();

  app.use(requestContext({ redact: withoutSecrets }), logRequest);
  app.use("/v1/*", serverTiming, rateLimitHeaders(addresses));
  app.use(cors);
  app.route("/version", version);
  app.use("/v1/*", requireHttps);
  app.use("/v1/*", identify(keys));
  app.route("/v1/usage", usageRoute(keys));
  app.get("/v1/pets", prefetch(pages, keys));
  app.use("/v1/*", rateLimit(keys, addresses), requireKey);
  app.route("/v1/pets", petRoutes(pages));
  // Last, because only a request without a route gets here: its input is not looked at.
  app.use("/v1/*", methodNotAllowed({ app, onMethodNotAllowed: handleWrongMethod }));
  app.notFound(handleUnknownPath);
  app.onError(handleError);
  return app;
}

export const app = createApp();
