// The errors of the client. A call also rejects with the reason of its own signal, with an error of a hook, and with a TypeError for an
// invalid argument.

import { defined } from "./defined.ts";
import { readRetryAfterMs } from "./rate-limit.ts";
import type { Error as ErrorBody } from "./schema.ts";

/** The closed set of codes: "Errors" in the guide of the service. */
export type ErrorCode = ErrorBody["code"];

/** What is known of a failure. */
export interface ErrorDetails {
  method: string;
  url: string;
  attempts: number;
  idempotencyKey?: string | undefined;
  response?: Pick<Response, "status" | "headers"> | undefined;
  code?: ErrorCode | undefined;
  body?: string | undefined;
  retryAfterMs?: number;
  cause?: unknown;
  /** Its stack shows the caller. That of the error begins at a timer or a socket. */
  caller?: Error;
}

/** The call failed. `instanceof` also knows errors of another copy of this package, such as the CommonJS one beside this one. */
export class PetstoreError extends Error {
  /** Kept when programs are minified. */
  static override readonly name: string = "PetstoreError";
  /** The names of those classes of this package that it is an instance of. */
  declare readonly petstoreErrorKinds: string[];
  /** The method of the request, such as POST. */
  declare readonly method: string;
  /** The URL of the request, without query values that could be secrets. */
  declare readonly url: string;
  /** How many requests were sent, without those that only show the limits. */
  declare readonly attempts: number;
  /** The status of the response, if there was one. */
  declare readonly status?: number;
  declare readonly headers?: Headers;
  /** Identifies the request in the log of the service. */
  declare readonly requestId?: string;
  /** The first 2 KB of the response, if it is none of the service's. */
  declare readonly body?: string;
  /** Of a creation: with this key, it can be repeated safely within 24 hours, also by another process. */
  declare readonly idempotencyKey?: string;
  /** How long to wait before the next request, in milliseconds, if a response said so or the client knows it. */
  declare readonly retryAfterMs?: number;

  constructor(message: string, { cause, response, caller, ...details }: ErrorDetails) {
    super(message, cause === undefined ? {} : { cause });
    const { status, headers } = response ?? {};
    const requestId = headers?.get("X-Request-Id") ?? undefined;
    const retryAfterMs = headers && readRetryAfterMs(headers);
    const kinds = CLASSES.filter((Class) => isInstance(Class, this)).map((Class) => Class.name);
    Object.defineProperty(this, "petstoreErrorKinds", { value: kinds });
    Object.assign(
      this,
      defined({ name: new.target.name, status, headers, requestId, retryAfterMs, ...details }),
    );
    if (!caller) return;
    // When it is read, because V8 takes long to write one.
    const get = () => `${this}\n${`${caller.stack}`.replace(/^Error\n/, "")}`;
    Object.defineProperty(this, "stack", { get, configurable: true });
  }

  static override [Symbol.hasInstance](this: typeof PetstoreError, value: unknown): boolean {
    const kinds: unknown = (value as PetstoreError | null)?.petstoreErrorKinds;
    const isKind = (Class: typeof PetstoreError) =>
      CLASSES.includes(Class) && Array.isArray(kinds) && kinds.includes(Class.name);
    // biome-ignore lint/complexity/noThisInStatic: the right side of `instanceof`, which can be a class that extends this one.
    return isInstance(this, value) || isKind(this);
  }
}

/** The service, or something in front of it, answered with an error. */
export class ApiError extends PetstoreError {
  static override readonly name: string = "ApiError";
  declare readonly status: number;
  declare readonly headers: Headers;
  /** Undefined if something in front of the service sent the response: see `body`. */
  declare readonly code?: ErrorCode;
}

/** A limit is exhausted or the key is banned (429). `attempts` is 0 if the client knew it, and sent nothing. */
export class RateLimitError extends ApiError {
  static override readonly name: string = "RateLimitError";
}

/** There was no complete response, or none that the service sends. `cause` says why. */
export class ConnectionError extends PetstoreError {
  static override readonly name: string = "ConnectionError";
}

/** There was no complete response in time. */
export class TimeoutError extends ConnectionError {
  static override readonly name: string = "TimeoutError";
}

const CLASSES: (typeof PetstoreError)[] = [
  PetstoreError,
  ApiError,
  RateLimitError,
  ConnectionError,
  TimeoutError,
];

/** What `instanceof` is for other classes. */
function isInstance(Class: typeof PetstoreError, value: unknown): boolean {
  return Function.prototype[Symbol.hasInstance].call(Class, value);
}

/** The code and the message of an error's body. Undefined if it is none of the service's, such as a page of HTML. */
export function readErrorBody(text: string): Pick<ErrorBody, "code" | "message"> | undefined {
  try {
    const { code, message } = JSON.parse(text);
    if (typeof code === "string" && typeof message === "string") return { code: code as ErrorCode, message };
  } catch {}
  return undefined;
}
