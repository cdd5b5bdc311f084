// The options of the client and of calls: their defaults, and checks that name an option and never repeat its value, which could be a key.

import type { PetstoreError } from "./errors.ts";
import { VERSION } from "./version.ts";

type HeadersLike = Headers | Record<string, string> | [name: string, value: string][];

/** Options of every call. Undefined is the same as absent. */
export interface CallOptions {
  /** Ends the call at once, in waits too: it rejects with the reason of the signal. */
  signal?: AbortSignal | undefined;
  /** Headers to send. Those of a call replace those of the client, which replace its own. */
  headers?: HeadersLike | undefined;
  /** Retries after a lost connection, a timeout, an unexpected 2xx response, or status 408, 429 or 5xx. @default 2 */
  maxRetries?: number | undefined;
  /** The longest time of one request with its response body and hooks, in milliseconds; Infinity is no limit. @default 10_000 */
  timeoutMs?: number | undefined;
  /** The longest time of a call with retries and waits, in ms; Infinity is no limit. @default 90_000, and Infinity for `createMany` */
  totalTimeoutMs?: number | undefined;
  /** The longest wait for Retry-After or the next window, in ms: a call rejects at once if it would be longer. @default 60_000 */
  maxWaitMs?: number | undefined;
}

/** Options of calls that change something. */
export interface CreateOptions extends CallOptions {
  /** 1 to 255 visible ASCII characters. Repeating the call with it within 24 hours is safe. @default random for each call */
  idempotencyKey?: string | undefined;
}

/** A request that is about to be sent, or was. It contains neither the API key nor query values that could be secrets. */
export interface RequestEvent {
  /** The same for all events of a call, and for no other call of this process. */
  callId: number;
  method: string;
  url: string;
  /** 1 for the first request of a call. */
  attempt: number;
}

export interface ResponseEvent extends RequestEvent {
  status: number;
  headers: Record<string, string>;
  /** Identifies the request in the log of the service. */
  requestId: string | undefined;
  /** From the request to the end of the response body, in whole milliseconds. */
  durationMs: number;
}

export interface WaitEvent extends RequestEvent {
  waitMs: number;
  /** Why the request is repeated. Undefined if it waits for requests to be left. */
  error?: PetstoreError | undefined;
}

export interface EndEvent extends Omit<RequestEvent, "attempt"> {
  /** How many requests were sent, without those that only show the limits. */
  attempts: number;
  /** From the call to its end, with waits, in whole milliseconds. */
  durationMs: number;
  /** Of the last response, if there was one. */
  status: number | undefined;
  requestId: string | undefined;
  /** What the call rejects with. Undefined if it has succeeded. */
  error?: unknown;
}

/**
 * For logs: JSON.stringify shows all of an event, and of the errors of this package. A call waits for a hook that returns a promise: for
 * `onWait` no longer than it has to wait, for others within `timeoutMs`. If a hook fails, the call rejects with its error, whatever the
 * service did.
 */
export interface Hooks {
  onRequest?: ((event: RequestEvent) => unknown) | undefined;
  onResponse?: ((event: ResponseEvent) => unknown) | undefined;
  onWait?: ((event: WaitEvent) => unknown) | undefined;
  onEnd?: ((event: EndEvent) => unknown) | undefined;
}

/** Options of a client. Those of calls are the defaults of its calls. Undefined is the same as absent. */
export interface ClientOptions extends Omit<CallOptions, "signal">, Hooks {
  /** The API key, or a function that gives it, which is called for each request. @default environment variable PETSTORE_API_KEY */
  apiKey?: string | (() => string | Promise<string>) | undefined;
  /** The URL of the service; without a path, /v1 is added. @default environment variable PETSTORE_BASE_URL */
  baseURL?: string | URL | undefined;
  /** Send the key unencrypted to an http URL whose host is no loopback host. @default false */
  allowInsecureHTTP?: boolean | undefined;
  /** Ask for the limits before the first request, so that not even the first calls are refused. It consumes nothing. @default false */
  pace?: boolean | undefined;
  /** Requests that are under way at once; Infinity is no limit. @default 64 */
  maxConcurrency?: number | undefined;
  /** The largest response body, decompressed, in bytes; Infinity is no limit. @default 1_048_576 */
  maxResponseBytes?: number | undefined;
  /** Sends requests. @default the global fetch, looked up for each request */
  fetch?: typeof fetch | undefined;
}

type Given<Values> = { [Name in keyof Values]-?: Exclude<Values[Name], undefined> };

/** The options of a client, or their defaults. `baseURL` has no final slash. */
export interface Settings extends Given<Omit<ClientOptions, keyof Hooks>>, Hooks {
  baseURL: string;
  headers: Headers;
  /** Of one call. */
  signal?: AbortSignal | undefined;
}

type Name = keyof ClientOptions | keyof CreateOptions;
type Rule = [expected: string, accepts: (value: unknown) => boolean];

/** Whether it can be a key. Of others, fetch would show the value in its error. */
export const isVisible = (value: unknown): value is string =>
  typeof value === "string" && /^[!-~]+$/.test(value);
const isFunction = (value: unknown) => typeof value === "function";

const NOT_NEGATIVE: Rule = ["a number, at least 0", (value) => typeof value === "number" && value >= 0];
const DURATION: Rule = ["a number above 0", (value) => typeof value === "number" && value > 0];
const POSITIVE: Rule = ["a number, at least 1", (value) => typeof value === "number" && value >= 1];
const BOOLEAN: Rule = ["true or false", (value) => typeof value === "boolean"];
const FUNCTION: Rule = ["a function", isFunction];

const RULES: Record<Name, Rule> = {
  apiKey: [
    "visible ASCII or a function, or PETSTORE_API_KEY be set",
    (key) => isFunction(key) || isVisible(key),
  ],
  baseURL: ["a URL, or PETSTORE_BASE_URL be set", (value) => succeeds(() => new URL(value as string))],
  headers: ["names and values", (value) => succeeds(() => new Headers(value as Headers))],
  signal: ["an AbortSignal", (value) => isFunction((value as AbortSignal | null)?.addEventListener)],
  idempotencyKey: [
    "1 to 255 visible ASCII characters, or for createMany up to 238",
    (value) => isVisible(value) && value.length < 256,
  ],
  maxRetries: NOT_NEGATIVE,
  timeoutMs: DURATION,
  totalTimeoutMs: DURATION,
  maxWaitMs: NOT_NEGATIVE,
  maxConcurrency: POSITIVE,
  maxResponseBytes: POSITIVE,
  allowInsecureHTTP: BOOLEAN,
  pace: BOOLEAN,
  fetch: FUNCTION,
  onRequest: FUNCTION,
  onResponse: FUNCTION,
  onWait: FUNCTION,
  onEnd: FUNCTION,
};

const OF_CALLS_ONLY: Name[] = ["signal", "idempotencyKey"];
const OF_BOTH: Name[] = ["headers", "maxRetries", "timeoutMs", "totalTimeoutMs", "maxWaitMs"];

/** Returns the options of a call that are given. Throws a TypeError for an invalid one. */
export function readCallOptions(options: CreateOptions): CreateOptions {
  return check(options, (name) => OF_CALLS_ONLY.includes(name) || OF_BOTH.includes(name));
}

/** Returns the options of a client, and the defaults of others. Throws a TypeError for an invalid one. */
export function readClientOptions(options: ClientOptions): Settings {
  const { process } = globalThis as { process?: { env?: Record<string, string> } };
  // Read only if it is needed, because Deno asks for a permission.
  const { apiKey = process?.env?.PETSTORE_API_KEY || "", baseURL = process?.env?.PETSTORE_BASE_URL || "" } =
    options;
  const given = check({ ...options, apiKey, baseURL }, (name) => !OF_CALLS_ONLY.includes(name));
  return {
    maxRetries: 2,
    timeoutMs: 10_000,
    totalTimeoutMs: 90_000,
    maxWaitMs: 60_000,
    allowInsecureHTTP: false,
    pace: false,
    maxConcurrency: 64,
    maxResponseBytes: 1_048_576,
    // Looked up for each request, because programs replace it.
    fetch: (input, init) => globalThis.fetch(input, init),
    ...(given as Partial<Settings>),
    apiKey,
    baseURL: readBaseURL(new URL(baseURL), given.allowInsecureHTTP),
    headers: merge(ownHeaders(), given.headers),
  };
}

/** Undefined is the same as absent. */
export function defined<Values extends object>(values: Values): Values {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Values;
}

function check<Options extends object>(options: Options, isKnown: (name: Name) => boolean): Options {
  const given = defined(options);
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(RULES, name) || !isKnown(name as Name))
      throw new TypeError(`${name}: there is no such option`);
    const [expected, accepts] = RULES[name as Name];
    if (!accepts(value)) throw new TypeError(`${name}: must be ${expected}`);
  }
  return given;
}

function succeeds(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}

/** The headers with others, which replace them. */
export function merge(headers: Headers | undefined, others: HeadersLike = {}): Headers {
  const merged = new Headers(headers);
  new Headers(others).forEach((value, name) => void merged.set(name, value));
  return merged;
}

function ownHeaders(): Headers {
  const headers = new Headers({ Accept: "application/json" });
  // Browsers set their own.
  const { navigator } = globalThis as { navigator?: { userAgent?: string } };
  if (!navigator?.userAgent?.startsWith("Mozilla")) headers.set("User-Agent", `petstore-client/${VERSION}`);
  return headers;
}

/** HTTPS, or HTTP to a loopback host, because the key is a secret; without credentials, query and fragment. */
const BASE_URL = /^(https:\/\/|http:\/\/(([^/@]+\.)?localhost|127(\.\d+){3}|\[::1\])[:/])[^@?#]*$/;

function readBaseURL({ href, origin, pathname }: URL, allowInsecureHTTP: boolean | undefined): string {
  if (!BASE_URL.test(allowInsecureHTTP ? href.replace("http:", "https:") : href))
    throw new TypeError("baseURL: must be https, a host and a path; for http there is allowInsecureHTTP");
  return origin + (pathname.replace(/\/+$/, "") || "/v1");
}
