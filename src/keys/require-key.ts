// Refuses requests without a valid key. It runs after the rate limit, so that such requests are counted first. The message says what is
// wrong with the key: only a client that has its secret can see that.

import type { MiddlewareHandler } from "hono";
import { errorResponse } from "../http/errors.ts";
import { MESSAGES } from "../http/messages.ts";
import type { KeysEnv } from "./authenticate.ts";

const CHALLENGE = 'Bearer realm="petstore"';

/** Sets `key`. Answers `unauthorized` with the challenge of RFC 6750, section 3 (contract, section 5). */
export function requireKey(): MiddlewareHandler<KeysEnv> {
  return async function requireKey(c, next) {
    const { key, problem = "missing" } = c.get("caller") ?? {};
    if (key !== undefined) {
      c.set("key", key);
      return next();
    }
    const challenge = problem === "missing" ? CHALLENGE : `${CHALLENGE}, error="invalid_token"`;
    const headers = { "WWW-Authenticate": challenge };
    return errorResponse(c, { code: "unauthorized", message: MESSAGES.unauthorized[problem], headers });
  };
}
