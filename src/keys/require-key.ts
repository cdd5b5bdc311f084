// Lets nobody pass without a valid key. It stands behind the rate limit, so that whoever has none is counted before
// being told so.

import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { ApiError } from "../errors.ts";

const CHALLENGE = 'Bearer realm="petstore"';

/** Throws `unauthorized` with the challenge of RFC 6750, section 3 (contract, section 5). */
export function requireKey(): MiddlewareHandler<AppEnv> {
  return async function requireKey(c, next) {
    const { key, sentKey } = c.var.caller;
    if (key !== undefined) return next();
    throw sentKey
      ? new ApiError("unauthorized", "the API key is not valid", {
          "WWW-Authenticate": `${CHALLENGE}, error="invalid_token"`,
        })
      : new ApiError("unauthorized", "the API key is missing: send it as Authorization: Bearer <API key>", {
          "WWW-Authenticate": CHALLENGE,
        });
  };
}
