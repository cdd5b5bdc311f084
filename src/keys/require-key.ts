// Refuses requests without a valid key, after the rate limit has counted them. The message may say what is wrong with the key,
// because only a client with its secret sees that.

import type { MiddlewareHandler } from "hono";
import { errorResponse } from "../http/errors.ts";
import { MESSAGES } from "../http/messages.ts";
import type { KeysEnv } from "./identify.ts";

const CHALLENGE = 'Bearer realm="petstore"';

/** Sets `key`, or answers `unauthorized` with the challenge of RFC 6750, section 3. */
export const requireKey: MiddlewareHandler<KeysEnv> = async (c, next) => {
  const { key, problem = "missing" } = c.get("caller") ?? {};
  if (key !== undefined) {
    c.set("key", key);
    return next();
  }
  const challenge = problem === "missing" ? CHALLENGE : `${CHALLENGE}, error="invalid_token"`;
  const headers = { "WWW-Authenticate": challenge };
  return errorResponse(c, { code: "unauthorized", message: MESSAGES.unauthorized[problem], headers });
};
