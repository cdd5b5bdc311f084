// What every request has: an ID, its arrival time, the headers of its response and the fields of its log line. The Worker
// decides by the arrival time. Exceptions are a key's counters, which use their Durable Object's clock, and the caches, which read
// the current time.

import type { MiddlewareHandler } from "hono";
import { HEADER } from "./header-names.ts";
import type { Timing } from "./timing.ts";

export interface HttpEnv {
  Bindings: Env;
  Variables: {
    /** Unix time. */
    nowMs: number;
    requestId: string;
    /** The headers of the response. Each module adds those that it knows, before `respond` makes the response. */
    headers: Record<string, string>;
    /** Each module adds the fields that it knows. */
    log: LogFields;
    /** Set if the request asks for it. */
    timing?: Timing;
  };
}

export interface LogFields {
  /** Also of a key that is no longer valid. */
  keyId?: string | undefined;
  plan?: string | undefined;
  /** The tighter window of the rate limit, and the requests that it has left. */
  window?: string;
  remaining?: number;
  /** Of a pet that the request has added, so that an operator can find the pets of a key. */
  petId?: string;
  /** The code of the error response. */
  code?: string;
  failures?: Failure[];
}

/** A failure within the service, whether or not the client noticed it. */
export interface Failure {
  event: "internal_error" | "limiter_unavailable" | "database_unavailable" | "database_full" | "lookups_busy";
  cause: string;
  /** What an operator should do. */
  hint?: string | undefined;
  stack?: string | undefined;
}

/** Request IDs that clients may choose: harmless in any log. */
export const ID_LENGTH = { min: 8, max: 64 };
export const ACCEPTABLE_ID = new RegExp(`^[A-Za-z0-9_-]{${ID_LENGTH.min},${ID_LENGTH.max}}$`);

/**
 * Sets the variables, and the header X-Request-Id: the client's own ID if it is acceptable, else a new one. IDs are logged, so
 * `redact` replaces anything that looks like a secret with characters that no acceptable ID has.
 */
export function requestContext({ redact }: { redact(text: string): string }): MiddlewareHandler<HttpEnv> {
  return function requestContext(c, next) {
    const offered = c.req.header(HEADER.requestId)?.trim();
    const isAcceptable = offered !== undefined && ACCEPTABLE_ID.test(redact(offered));
    const id = isAcceptable ? offered : crypto.randomUUID();
    c.set("nowMs", Date.now());
    c.set("requestId", id);
    c.set("headers", { [HEADER.requestId]: id });
    c.set("log", {});
    return next();
  };
}
