// Every error response of the service is made here: one class, a closed set of codes, one body.
// A handler throws an ApiError; whatever else is thrown is a fault or a bug, of which the client
// learns the request id and what to do, and the log learns everything.

import type { Context } from "hono";
import { DatabaseFull, DatabaseUnavailable } from "../d1/statements.ts";
import { logFailure } from "./log.ts";
import { MESSAGES, type OutageMessage } from "./messages.ts";
import type { HttpEnv } from "./request-context.ts";

/** The codes, each with its HTTP status (contract, sections 4 and 7). */
export const ERROR_STATUS = {
  invalid_request: 400,
  unauthorized: 401,
  not_found: 404,
  method_not_allowed: 405,
  operation_removed: 410,
  payload_too_large: 413,
  unsupported_media_type: 415,
  idempotency_key_reused: 422,
  rate_limit_exceeded: 429,
  key_banned: 429,
  internal_error: 500,
  service_unavailable: 503,
} as const satisfies Record<keyof typeof MESSAGES, number>;

/** After a 503. Longer than D1 takes to restart a database. */
const RETRY_AFTER_SECONDS = 5;

/** After a 503 that an operator has to end, which takes minutes at least; then nobody should wait much longer. */
const FULL_RETRY_AFTER_SECONDS = 300;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** The codes that a status can have. */
type CodeOf<Status extends number> = {
  [Code in ErrorCode]: (typeof ERROR_STATUS)[Code] extends Status ? Code : never;
}[ErrorCode];

/** The body of each error, for clients in TypeScript. */
export type ErrorResponses = {
  [Status in (typeof ERROR_STATUS)[ErrorCode]]: {
    json: { code: CodeOf<Status>; message: string; status: Status };
  };
};

/** What a client is told about a failure: `message` is for people, `headers` go into the response. */
interface Failing {
  code: ErrorCode;
  message: string;
  headers?: Record<string, string>;
}

/** A failure that the client is told about. */
export class ApiError extends Error implements Failing {
  readonly code: ErrorCode;
  readonly headers: Record<string, string>;

  constructor(code: ErrorCode, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.headers = headers;
  }
}

/**
 * The response of an error: exactly `code`, `message`, `status` (contract, section 2, Error). A middleware at which floods
 * end returns it by itself, which is cheaper than to throw.
 */
export function errorResponse<E extends HttpEnv>(
  c: Context<E>,
  { code, message, headers }: Failing,
): Response {
  const status = ERROR_STATUS[code];
  c.get("log").code = code;
  return new Response(JSON.stringify({ code, message, status }), {
    status,
    headers: { "Content-Type": "application/json", ...headers },
  });
}

/** Answers for whatever a handler or a middleware threw. */
export function handleError<E extends HttpEnv>(error: Error, c: Context<E>): Response {
  if (error instanceof ApiError) return errorResponse(c, error);
  const { database, databaseFull, unknownOutcome, unknownOutcomeIdempotent } = MESSAGES.service_unavailable;
  const requestId = c.get("requestId");
  if (error instanceof DatabaseFull) {
    logFailure(c, "database_full", error.cause);
    return errorResponse(c, serviceUnavailable(databaseFull, requestId, FULL_RETRY_AFTER_SECONDS));
  }
  if (error instanceof DatabaseUnavailable) {
    logFailure(c, "database_unavailable", error.cause);
    const isIdempotent = c.req.header("Idempotency-Key") !== undefined;
    const unknown = isIdempotent ? unknownOutcomeIdempotent : unknownOutcome;
    return errorResponse(c, serviceUnavailable(error.wasWriting ? unknown : database, requestId));
  }
  logFailure(c, "internal_error", error);
  return errorResponse(c, new ApiError("internal_error", MESSAGES.internal_error.fault(requestId)));
}

/** The error for a part that can't be reached or does not answer. */
export function serviceUnavailable(
  message: OutageMessage,
  requestId: string,
  retryAfterSeconds = RETRY_AFTER_SECONDS,
): ApiError {
  return new ApiError("service_unavailable", message({ retryAfterSeconds, requestId }), {
    "Retry-After": `${retryAfterSeconds}`,
  });
}

/** Answers for a path that no route has. It returns, because `methodNotAllowed` looks at returned 404s only. */
export function handleUnknownPath<E extends HttpEnv>(c: Context<E>): Response {
  const { path, pathOutsideApi } = MESSAGES.not_found;
  return errorResponse(c, new ApiError("not_found", /^\/v1(\/|$)/.test(c.req.path) ? path : pathOutsideApi));
}

/** Answers for a method that the path does not have. `allowed`: the methods it has (RFC 9110, section 15.5.6). */
export function handleWrongMethod<E extends HttpEnv>(c: Context<E>, allowed: string[]): never {
  const Allow = allowed.join(", ");
  throw new ApiError("method_not_allowed", MESSAGES.method_not_allowed.method(c.req.method, allowed), {
    Allow,
  });
}
