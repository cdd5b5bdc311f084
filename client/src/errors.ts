// The errors of the client. A call also rejects with the reason of its own signal, and with a TypeError for an invalid argument.

import type { Error as ErrorBody } from "./schema.ts";

/** The closed set of codes: "Errors" in the guide of the service. */
export type ErrorCode = ErrorBody["code"];

/** The call failed. */
export class PetstoreError extends Error {
  override readonly name: string = "PetstoreError";
  /** How many requests were sent, without the one that shows a paced client its limits. */
  attempts = 0;
  /** Of a creation: with this key, it can be repeated safely within 24 hours, also by another process. */
  idempotencyKey: string | undefined;
  /** How long to wait before the next request, if the response said so, or if pacing knows it. */
  retryAfterMs: number | undefined;
}

/** The service, or something in front of it, answered with an error. */
export class ApiError extends PetstoreError {
  override readonly name: string = "ApiError";
  readonly status: number;
  /** Undefined if the response has no body of the service: something in front of it sent the response. */
  readonly code: ErrorCode | undefined;
  /** Identifies the request in the log of the service. */
  readonly requestId: string | undefined;
  readonly headers: Headers;

  constructor(status: number, { code, message }: Partial<ErrorBody>, headers: Headers) {
    super(message ?? `unexpected response with status ${status}`);
    this.status = status;
    this.code = code;
    this.requestId = headers.get("X-Request-Id") ?? undefined;
    this.headers = headers;
  }
}

/** A limit is exhausted or the key is banned (429), or pacing would have to wait for longer than it may. */
export class RateLimitError extends ApiError {
  override readonly name = "RateLimitError";
}

/** There was no complete response, or none that the service sends. `cause` says why. */
export class ConnectionError extends PetstoreError {
  override readonly name: string = "ConnectionError";
}

/** There was no complete response in time. */
export class TimeoutError extends ConnectionError {
  override readonly name = "TimeoutError";
}

/** The error of a response whose status is not a success. */
export function errorOf(status: number, headers: Headers, text: string): ApiError {
  const Class = status === 429 ? RateLimitError : ApiError;
  return new Class(status, errorBody(text), headers);
}

function errorBody(text: string): Partial<ErrorBody> {
  try {
    const { code, message } = JSON.parse(text);
    return typeof code === "string" && typeof message === "string"
      ? { code: code as ErrorCode, message }
      : {};
  } catch {
    // Such as an HTML page.
    return {};
  }
}

/** How long a response says to wait (RFC 9110, section 10.2.3): seconds, or a date by the clock of the server. */
export function readRetryAfterMs(headers: Headers): number | undefined {
  const value = headers.get("Retry-After") ?? "a";
  const nowMs = Date.parse(headers.get("Date") ?? "") || Date.now();
  // If there are several, the headers are joined by a comma.
  const seconds = Math.max(...value.split(",").map(Number));
  const waitMs = /[a-z]/i.test(value) ? Date.parse(value) - nowMs : seconds * 1000;
  return Number.isNaN(waitMs) ? undefined : Math.max(0, waitMs);
}
