// CORS for every origin. That is safe because the page itself sends the key; there are no cookies. Unlike `hono/cors`, only a
// real preflight is answered here; any other OPTIONS request gets a 405.

import type { MiddlewareHandler } from "hono";
import type { HttpEnv } from "./request-context.ts";
import { requestHeader } from "./request-header.ts";

const METHODS = "GET, HEAD, POST";

/** Headers beyond the safelisted ones that a page may read, on errors too. */
export const EXPOSED_HEADERS =
  "Deprecation, Link, Location, RateLimit, RateLimit-Policy, Retry-After, Sunset, " +
  "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id";

/** How long a browser may cache a preflight; Chromium's own limit. */
const MAX_AGE_SECONDS = "7200";

/** A list of header names as browsers send it. Anything else is not echoed. */
const HEADER_NAMES = /^[A-Za-z0-9_, -]+$/;

/** Answers preflights (Fetch standard, section 3.3), and opens every other response to all origins. */
export const cors: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const isPreflight =
    c.req.method === "OPTIONS" &&
    c.req.header("Origin") !== undefined &&
    c.req.header("Access-Control-Request-Method") !== undefined;

  if (isPreflight) {
    c.res = new Response(null, { status: 204 });
    c.header("Access-Control-Allow-Methods", METHODS);
    // The wildcard would not cover Authorization, so the requested headers are allowed by name.
    const requestedHeaders = requestHeader(c.req.raw.headers, "Access-Control-Request-Headers") ?? "";
    if (HEADER_NAMES.test(requestedHeaders)) c.header("Access-Control-Allow-Headers", requestedHeaders);
    c.header("Access-Control-Max-Age", MAX_AGE_SECONDS);
    c.header("Vary", "Access-Control-Request-Headers");
  } else {
    await next();
    c.res.headers.set("Access-Control-Expose-Headers", EXPOSED_HEADERS);
  }
  c.res.headers.set("Access-Control-Allow-Origin", "*");
};
