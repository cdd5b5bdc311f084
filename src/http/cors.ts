// CORS for every origin. That is safe because the page itself sends the key; there are no cookies. Unlike `hono/cors`, only a
// real preflight is answered here; any other OPTIONS request gets a 405.

import type { MiddlewareHandler } from "hono";
import { methodsOf } from "./operations.ts";
import type { HttpEnv } from "./request-context.ts";
import { respond } from "./respond.ts";

const METHODS = methodsOf().join(", ");

/** How long a browser may cache a preflight; Chromium's own limit. */
const MAX_AGE_SECONDS = "7200";

/** A list of header names as browsers send it. Anything else is not echoed. */
const HEADER_NAMES = /^[A-Za-z0-9_, -]+$/;

/** Answers preflights (Fetch standard, section 3.3), and opens every other response to all origins. */
export const cors: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const headers = c.get("headers");
  headers["Access-Control-Allow-Origin"] = "*";
  const isPreflight =
    c.req.method === "OPTIONS" &&
    c.req.header("Origin") !== undefined &&
    c.req.header("Access-Control-Request-Method") !== undefined;
  if (!isPreflight) {
    headers["Access-Control-Expose-Headers"] = "*";
    return next();
  }
  // The wildcard would not cover Authorization, so the requested headers are allowed by name.
  const requestedHeaders = c.req.header("Access-Control-Request-Headers")?.trim() ?? "";
  if (HEADER_NAMES.test(requestedHeaders)) headers["Access-Control-Allow-Headers"] = requestedHeaders;
  headers["Access-Control-Allow-Methods"] = METHODS;
  headers["Access-Control-Max-Age"] = MAX_AGE_SECONDS;
  headers.Vary = "Access-Control-Request-Headers";
  return respond(c, null, 204);
};
