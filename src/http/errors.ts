// Error responses: a closed set of codes and one body. Handlers throw ApiError. For any other error the client gets the request
// ID and what to do, and the log gets the details.

import type { Context } from "hono";
import { DatabaseFull, DatabaseUnavailable } from "../d1/statements.ts";
import { LimiterUnavailable } from "../limits/index.ts";
import { HEADER } from "./header-names.ts";
import { logFailure } from "./log.ts";
import { MESSAGES, type OutageMessage } from "./messages.ts";
import type { Failure, HttpEnv } from "./request-context.ts";
import { respondJson } from "./respond.ts";

/** The status of each code: "Errors" in the guide (src/openapi/guide.md). */
export const ERROR_STATUS = {
  invalid_request: 400,
  unauthorized: 401,
  forbidden: 403,
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

/** Longer than D1 takes to restart a database. */
export const RETRY_AFTER_SECONDS = 5;

/** For a full database: an operator needs minutes at least to make room. */
export const FULL_RETRY_AFTER_SECONDS = 300;

export type ErrorCode = keyof typeof ERROR_STATUS;

type ErrorInit = Pick<ApiError, "code" | "message"> & Partial<Pick<ApiError, "headers">>;

export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly headers: Record<string, string>;

  constructor(code: ErrorCode, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.headers = headers;
  }
}

/** The response of an error: "Errors" in the guide. To refuse floods, middleware returns it: throwing costs more. */
export function errorResponse<E extends HttpEnv>(c: Context<E>, error: ErrorInit): Response {
  const { code, message, headers } = error;
  const status = ERROR_STATUS[code];
  c.get("log").code = code;
  Object.assign(c.get("headers"), headers);
  return respondJson(c, JSON.stringify({ code, message, status }), status);
}

/** What the log and the client are told. */
const LIMITER_OUTAGES = {
  key: ["database_unavailable", MESSAGES.service_unavailable.database],
  counts: ["limiter_unavailable", MESSAGES.service_unavailable.limiter],
  lookups: ["lookups_busy", MESSAGES.service_unavailable.lookups],
} as const satisfies Record<LimiterUnavailable["reason"], [Failure["event"], OutageMessage]>;

/** Answers for an error that a handler or middleware threw. */
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
    const isIdempotent = c.req.header(HEADER.idempotencyKey) !== undefined;
    const unknown = isIdempotent ? unknownOutcomeIdempotent : unknownOutcome;
    return errorResponse(c, serviceUnavailable(error.wasWriting ? unknown : database, requestId));
  }
  if (error instanceof LimiterUnavailable) {
    const [event, message] = LIMITER_OUTAGES[error.reason];
    logFailure(c, event, error.cause ?? error);
    return errorResponse(c, serviceUnavailable(message, requestId));
  }
  logFailure(c, "internal_error", error);
  return errorResponse(c, new ApiError("internal_error", MESSAGES.internal_error.fault(requestId)));
}

function serviceUnavailable(
  message: OutageMessage,
  requestId: string,
  retryAfterSeconds = RETRY_AFTER_SECONDS,
): ApiError {
  return new ApiError("service_unavailable", message({ retryAfterSeconds, requestId }), {
    [HEADER.retryAfter]: `${retryAfterSeconds}`,
  });
}

/** Answers for an unknown path. It returns the 404, because `methodNotAllowed` ignores a thrown one. */
export function handleUnknownPath<E extends HttpEnv>(c: Context<E>): Response {
  const { path, pathOutsideApi } = MESSAGES.not_found;
  return errorResponse(c, new ApiError("not_found", /^\/v1(\/|$)/.test(c.req.path) ? path : pathOutsideApi));
}

/** Answers for a method that the path does not have (RFC 9110, section 15.5.6). */
export function handleWrongMethod<E extends HttpEnv>(c: Context<E>, allowed: string[]): never {
  const Allow = allowed.join(", ");
  throw new ApiError("method_not_allowed", MESSAGES.method_not_allowed.method(c.req.method, allowed), {
    Allow,
  });
}
