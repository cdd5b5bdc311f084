// The errors of the client. A call also rejects with the reason of its own signal, with an error of a hook, and with a TypeError for an
// invalid argument.

import { readRetryAfterMs } from "./rate-limit.ts";
import type { Error as ErrorBody } from "./schema.ts";

/** The closed set of codes: "Errors" in the guide of the service. */
export type ErrorCode = ErrorBody["code"];

/** What is known of a failure. */
export type ErrorDetails = { [Name in keyof ApiError]?: ApiError[Name] | undefined } & {
  response?: Pick<Response, "status" | "headers"> | undefined;
  /** Its stack shows the caller. That of the error begins at a timer or a socket. */
  caller?: Error;
};

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
    const own = { name: new.target.name, status, headers, requestId, retryAfterMs, ...details };
    for (const [name, value] of Object.entries(own))
      if (value !== undefined) Object.assign(this, { [name]: value });
    const kinds = CLASSES.filter((Class) => this instanceof Class).map(({ name }) => name);
    Object.defineProperty(this, "petstoreErrorKinds", { value: kinds });
    if (!caller) return;
    // When it is read, because V8 takes long to write one.
    const get = () => `${this}\n${`${caller.stack}`.replace(/^Error\n?/, "")}`;
    const set = (value: unknown) => void Object.defineProperty(this, "stack", { value, writable: true });
    Object.defineProperty(this, "stack", { get, set, configurable: true });
  }

  /** For logs, where an Error would lose its message. */
  toJSON(): Record<string, unknown> {
    const { name, message, headers, cause, ...others } = this;
    return { name, message, ...others, cause: cause && `${cause}` };
  }

  static override [Symbol.hasInstance](this: typeof PetstoreError, value: unknown): boolean {
    const { petstoreErrorKinds: kinds } = (value ?? {}) as Partial<PetstoreError>;
    // biome-ignore-start lint/complexity/noThisInStatic: the right side of `instanceof`, which can be a class that extends this one.
    const isOwn = super[Symbol.hasInstance](value);
    return isOwn || (CLASSES.includes(this) && Array.isArray(kinds) && kinds.includes(this.name));
    // biome-ignore-end lint/complexity/noThisInStatic: see above.
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

const CLASSES = [PetstoreError, ApiError, RateLimitError, ConnectionError, TimeoutError];
