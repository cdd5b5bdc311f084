// Every error response of the service is made here: one class, a closed set of codes, one body.
// A handler throws an ApiError; whatever else is thrown is a bug or a fault, of which the client
// learns the request id and nothing more, and the log learns everything.

import type { Context } from "hono";
import type { AppEnv } from "./env.ts";
import { logFailure } from "./log.ts";

/** The codes, each with its HTTP status (contract, sections 4 and 7). */
export const ERROR_STATUS = {
  invalid_request: 400,
  unauthorized: 401,
  not_found: 404,
  method_not_allowed: 405,
  operation_removed: 410,
  payload_too_large: 413,
  unsupported_media_type: 415,
  rate_limit_exceeded: 429,
  internal_error: 500,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** A failure that the client is told about. `message` is for people; `headers` go into the response. */
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

/** The response of an error: exactly `code`, `message`, `status` (contract, section 2, Error). */
export function errorResponse(c: Context<AppEnv>, { code, message, headers }: ApiError): Response {
  const status = ERROR_STATUS[code];
  return c.json({ code, message, status }, status, headers);
}

/** Answers for whatever a handler or a middleware threw. */
export function handleError(error: Error, c: Context<AppEnv>): Response {
  if (error instanceof ApiError) return errorResponse(c, error);
  logFailure(error, c.var.requestId);
  const message = `something failed on our side; if it lasts, report request ${c.var.requestId}`;
  return errorResponse(c, new ApiError("internal_error", message));
}

/** Answers for a path that no route has. It returns, because `methodNotAllowed` looks at returned 404s only. */
export function handleUnknownPath(c: Context<AppEnv>): Response {
  return errorResponse(c, new ApiError("not_found", "no operation has this path"));
}

/** Answers for a method that the path does not have. `allowed`: the methods it has (RFC 9110, section 15.5.6). */
export function handleWrongMethod(c: Context<AppEnv>, allowed: string[]): never {
  const Allow = allowed.join(", ");
  throw new ApiError("method_not_allowed", `${c.req.method} is not possible here, only ${Allow}`, { Allow });
}
