// Lets pages of every origin call the service and read its headers. No cookies are involved, the key is
// sent by the page itself, so there is no origin to be wary of. Unlike `hono/cors` this takes an OPTIONS
// request for a preflight only if it is one; any other is an ordinary request with an unsupported method.

import type { MiddlewareHandler } from "hono";
import type { HttpEnv } from "./request-context.ts";
import { requestHeader } from "./request-header.ts";

const METHODS = "GET, HEAD, POST";

/** Headers beyond the safelisted ones that a page may read, on errors too. */
export const EXPOSED_HEADERS = [
  "Deprecation",
  "Link",
  "Location",
  "RateLimit",
  "RateLimit-Policy",
  "Retry-After",
  "Sunset",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "X-Request-Id",
].join(", ");

/** How long a browser may remember a preflight. Chromium caps it at two hours. */
const MAX_AGE_SECONDS = "7200";

/** A list of header names, as a browser sends it, of the characters that such names have. Nothing else is repeated. */
const HEADER_NAMES = /^[A-Za-z0-9_, -]+$/;

/** Answers preflights by itself (Fetch standard, section 3.3) and opens every other response to all origins. */
export function cors(): MiddlewareHandler<HttpEnv> {
  return async function cors(c, next) {
    const isPreflight =
      c.req.method === "OPTIONS" &&
      c.req.header("Origin") !== undefined &&
      c.req.header("Access-Control-Request-Method") !== undefined;

    if (isPreflight) {
      c.res = new Response(null, { status: 204 });
      c.header("Access-Control-Allow-Methods", METHODS);
      // The wildcard would not cover Authorization, so whatever is asked for is allowed by name.
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
}
