// The lifecycle of a request, in order (DESIGN.md has the picture). The order is part of the contract: HTTPS, rate limit, key,
// access, method and path, input. Everything before the rate limit is free for clients.

import { Hono } from "hono";
import { methodNotAllowed } from "hono/method-not-allowed";
import { cors } from "./http/cors.ts";
import { handleError, handleUnknownPath, handleWrongMethod } from "./http/errors.ts";
import { logRequest } from "./http/log.ts";
import { requestContext } from "./http/request-context.ts";
import { requireHttps } from "./http/require-https.ts";
import { serverTiming } from "./http/server-timing.ts";
import { version } from "./http/version.ts";
import { requireAccess } from "./keys/access.ts";
import { newLimiter } from "./keys/limiter.ts";
import { withoutSecrets } from "./keys/secret.ts";
import { usageRoute } from "./keys/usage/usage-route.ts";
import { PageCache } from "./pets/page-cache.ts";
import { type PetsEnv, prefetch } from "./pets/prefetch.ts";
import { petRoutes } from "./pets/routes.ts";

function createApp() {
  const app = new Hono<PetsEnv>();
  const limiter = newLimiter();
  const pages = new PageCache();

  app.use(requestContext({ redact: withoutSecrets }), logRequest);
  app.use("/v1/*", serverTiming, limiter.headers);
  app.use(cors);
  app.route("/version", version);
  app.use("/v1/*", requireHttps);
  app.use("/v1/*", limiter.identify);
  app.route("/v1/usage", usageRoute(limiter));
  app.get("/v1/pets", prefetch(pages, limiter));
  app.use("/v1/*", limiter.admit);
  app.use("/v1/*", requireAccess);
  app.route("/v1/pets", petRoutes(pages));
  // Last, because only a request without a route gets here: its input is not looked at.
  app.use("/v1/*", methodNotAllowed({ app, onMethodNotAllowed: handleWrongMethod }));
  app.notFound(handleUnknownPath);
  app.onError(handleError);
  return app;
}

export const app = createApp();
