// Every error response of the service is made here: one class, a closed set of codes, one body.
// A handler throws an ApiError; whatever else is thrown is a fault or a bug, of which the client
// learns the request id and what to do, and the log learns everything.

import type { Context } from "hono";
import { DatabaseFull, DatabaseUnavailable } from "../d1/statements.ts";
import { logFailure } from "./log.ts";
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
} as const;

/** After a 503. Longer than D1 takes to restart a database. */
const RETRY_AFTER_SECONDS = 5;

/** After a 503 that an operator has to end, which takes minutes at least; then nobody should wait much longer. */
const FULL_RETRY_AFTER_SECONDS = 300;

/** After a creation that may have been done. An Idempotency-Key that only the retry has makes a second pet. */
const UNKNOWN_OUTCOME = "the database did not respond, so the pet may have been added";
const RETRY_IS_SAFE = "a retry with the same Idempotency-Key and body adds no second pet";
const RETRY_IS_NOT_SAFE =
  "list the pets before you retry; send an Idempotency-Key with the first attempt of the next creation";

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
  if (error instanceof DatabaseFull) {
    logFailure(c, "database_full", error.cause);
    const problem = "the database is full, so nothing was written";
    return errorResponse(c, serviceUnavailable(problem, c.get("requestId"), FULL_RETRY_AFTER_SECONDS));
  }
  if (error instanceof DatabaseUnavailable) {
    logFailure(c, "database_unavailable", error.cause);
    const problem = error.wasWriting ? unknownOutcome(c) : "the database can't be reached";
    return errorResponse(c, serviceUnavailable(problem, c.get("requestId")));
  }
  logFailure(c, "internal_error", error);
  const message = `internal error; if it persists, report request ID ${c.get("requestId")}`;
  return errorResponse(c, new ApiError("internal_error", message));
}

function unknownOutcome<E extends HttpEnv>(c: Context<E>): string {
  const hasIdempotencyKey = c.req.header("Idempotency-Key") !== undefined;
  return `${UNKNOWN_OUTCOME}: ${hasIdempotencyKey ? RETRY_IS_SAFE : RETRY_IS_NOT_SAFE}`;
}

/** The error for a part that can't be reached, or gives no answer. `problem` says so to the client. */
export function serviceUnavailable(
  problem: string,
  requestId: string,
  retryAfterSeconds = RETRY_AFTER_SECONDS,
): ApiError {
  const message = `${problem}; try again in ${retryAfterSeconds} s; if it persists, report request ID ${requestId}`;
  return new ApiError("service_unavailable", message, { "Retry-After": `${retryAfterSeconds}` });
}

/** Answers for a path that no route has. It returns, because `methodNotAllowed` looks at returned 404s only. */
export function handleUnknownPath<E extends HttpEnv>(c: Context<E>): Response {
  const hint = /^\/v1(\/|$)/.test(c.req.path) ? "" : ": all operations are under /v1";
  return errorResponse(c, new ApiError("not_found", `no operation has this path${hint}`));
}

/** Answers for a method that the path does not have. `allowed`: the methods it has (RFC 9110, section 15.5.6). */
export function handleWrongMethod<E extends HttpEnv>(c: Context<E>, allowed: string[]): never {
  const Allow = allowed.join(", ");
  throw new ApiError("method_not_allowed", `${c.req.method} is not possible here, only ${Allow}`, { Allow });
}
