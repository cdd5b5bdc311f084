// What every request has: an id, which its response and its log line show, the time of its arrival, and the fields of its log line.
// The Worker judges the request as of its arrival. Only counters go by another clock, their Durable Object's, and caches look again.

import type { MiddlewareHandler } from "hono";
import { requestHeader } from "./request-header.ts";

/** What this folder sets, and what it needs. */
export interface HttpEnv {
  Bindings: Env;
  Variables: {
    /** Unix time. */
    nowMs: number;
    requestId: string;
    /** Each module adds the fields that it knows. */
    log: LogFields;
  };
}

/** Fields of a request's log line. */
export interface LogFields {
  /** Also of a key that is no longer valid. */
  keyId?: string;
  plan?: string;
  /** The tighter window of the rate limit, and the requests that it has left. */
  window?: string;
  remaining?: number;
  /** The code of the error that is answered. */
  code?: string;
  failures?: Failure[];
}

/** Something that failed in the service while a request was served, whether its client notices or not. */
export interface Failure {
  event: "internal_error" | "limiter_unavailable" | "database_unavailable" | "database_full";
  cause: string;
  /** What an operator should do. */
  hint?: string | undefined;
  stack?: string | undefined;
}

/** What a client may choose as its id: long enough to be one, and harmless in any log. */
const ACCEPTABLE_ID = /^[A-Za-z0-9_-]{8,64}$/;

/**
 * Sets the variables and the header X-Request-Id: the client's own id if it is acceptable, else a new one. Ids are logged, so
 * `redact` replaces what looks like a secret, by characters that no acceptable id has.
 */
export function requestContext({ redact }: { redact(text: string): string }): MiddlewareHandler<HttpEnv> {
  return async function requestContext(c, next) {
    const offered = requestHeader(c.req.raw.headers, "X-Request-Id");
    const isAcceptable = offered !== undefined && ACCEPTABLE_ID.test(redact(offered));
    const id = isAcceptable ? offered : crypto.randomUUID();
    c.set("nowMs", Date.now());
    c.set("requestId", id);
    c.set("log", {});
    await next();
    c.res.headers.set("X-Request-Id", id);
  };
}
