// What every request is given when it arrives: an id, which its response carries and the log names, and the time.
// The Worker decides about a request as of the instant that is read here. Only a key's counters go by a clock of their own,
// their Durable Object's, and what has waited for another part meanwhile looks again.

import type { MiddlewareHandler } from "hono";
import type { AppEnv } from "../env.ts";
import { withoutSecrets } from "../keys/secret.ts";
import { requestHeader } from "./request-header.ts";

/** What a client may choose as its id: long enough to be one, and harmless in any log. */
const ACCEPTABLE_ID = /^[A-Za-z0-9_-]{8,64}$/;

/**
 * Sets `nowMs`, `requestId` and the header X-Request-Id: the client's own id if it is acceptable, else a new one. A key
 * is not acceptable, though it has the form: ids are logged.
 */
export function recordArrival(): MiddlewareHandler<AppEnv> {
  return async function recordArrival(c, next) {
    const offered = requestHeader(c.req.raw.headers, "X-Request-Id");
    // What is left of a key has a character that no acceptable id has.
    const isAcceptable = offered !== undefined && ACCEPTABLE_ID.test(withoutSecrets(offered));
    const id = isAcceptable ? offered : crypto.randomUUID();
    c.set("nowMs", Date.now());
    c.set("requestId", id);
    await next();
    c.res.headers.set("X-Request-Id", id);
  };
}
