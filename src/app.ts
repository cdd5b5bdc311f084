// The whole way of a request, in order; DESIGN.md has the picture. The order is the contract: HTTPS comes before the key, the
// key before the rate limit, that before method and path, those before the input. What stands before the rate limit costs nothing.

import { Hono } from "hono";
import type { ApplyGlobalResponse } from "hono/client";
import { methodNotAllowed } from "hono/method-not-allowed";
import type { AppEnv } from "./env.ts";
import { cors } from "./http/cors.ts";
import { type ErrorResponses, handleError, handleUnknownPath, handleWrongMethod } from "./http/errors.ts";
import { logRequest } from "./http/log.ts";
import { recordArrival } from "./http/request-context.ts";
import { requireHttps } from "./http/require-https.ts";
import { version } from "./http/version.ts";
import { identifyCaller } from "./keys/authenticate.ts";
import { requireKey } from "./keys/require-key.ts";
import { readAhead } from "./pets/prefetch.ts";
import { pets } from "./pets/routes.ts";
import { rateLimitHeaders } from "./rate-limit/headers.ts";
import { rateLimit } from "./rate-limit/middleware.ts";
import { usage } from "./rate-limit/usage/usage.ts";

export const app = new Hono<AppEnv>();

app.use(recordArrival(), logRequest());
app.use("/v1/*", rateLimitHeaders());
app.use(cors());
app.route("/version", version);
app.use("/v1/*", requireHttps(), identifyCaller({ servesBanned: "/v1/usage" }));
const free = app.route("/v1/usage", usage);
app.get("/v1/pets", readAhead());
app.use("/v1/*", rateLimit(), requireKey(), methodNotAllowed({ app, onMethodNotAllowed: handleWrongMethod }));
const routes = free.route("/v1/pets", pets);
app.notFound(handleUnknownPath);
app.onError(handleError);

/** The service as `hc<Petstore>()` sees it: what each operation takes and gives, an error included. */
export type Petstore = ApplyGlobalResponse<typeof routes, ErrorResponses>;
