// Gives every request an id, which its response carries and the log names.

import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "./env.ts";

/** What a client may choose as its id: long enough to be one, and harmless in any log. */
const ACCEPTABLE = /^[A-Za-z0-9_-]{8,64}$/;

/** Sets `requestId` and the header X-Request-Id: the client's own id if it is acceptable, else a new one. */
export function requestId(): MiddlewareHandler<AppEnv> {
  return async function requestId(c, next) {
    const offered = c.req.header("X-Request-Id");
    const id = offered !== undefined && ACCEPTABLE.test(offered) ? offered : crypto.randomUUID();
    c.set("requestId", id);
    await next();
    c.header("X-Request-Id", id);
  };
}
