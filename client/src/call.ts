// One call: requests until one succeeds, an error can't be repaired by a retry, or the time is over.

import {
  type ApiError,
  ConnectionError,
  errorOf,
  PetstoreError,
  RateLimitError,
  readRetryAfterMs,
  TimeoutError,
} from "./errors.ts";
import type { Pacer } from "./pacer.ts";
import { parseRateLimit, type RateLimit } from "./rate-limit.ts";

/** Options of every call; undefined is the same as absent. Times are in milliseconds, and may be Infinity. */
export interface CallOptions {
  /** Ends the call at once, in waits too: it rejects with the reason of the signal. */
  signal?: AbortSignal | undefined;
  /** Added to those of the client. */
  headers?: Record<string, string> | undefined;
  /** Retries after a lost connection, a timeout, or status 408, 429 or 5xx. 2 by default. */
  maxRetries?: number | undefined;
  /** The longest time of one request, with its response body. 10 s by default. */
  timeoutMs?: number | undefined;
  /** The longest time of the call, with retries and waits. 90 s by default. */
  totalTimeoutMs?: number | undefined;
  /** The longest wait for Retry-After or for the next window: the call rejects at once if it is longer. 60 s by default. */
  maxWaitMs?: number | undefined;
}

/** A request that is about to be sent, or was. It never contains the API key. */
export interface RequestEvent {
  method: string;
  url: string;
  /** 1 for the first request of a call. */
  attempt: number;
}

export interface ResponseEvent extends RequestEvent {
  status: number;
  headers: Headers;
  durationMs: number;
}

export interface WaitEvent extends RequestEvent {
  waitMs: number;
  /** Why the request is repeated. Undefined if it waits for requests to be left. */
  error?: PetstoreError;
}

/** What a logger needs. If one throws, the call rejects with that error, although the service may have done its work. */
export interface Hooks {
  onRequest?: ((event: RequestEvent) => void) | undefined;
  onResponse?: ((event: ResponseEvent) => void) | undefined;
  onWait?: ((event: WaitEvent) => void) | undefined;
}

export interface Transport extends Hooks {
  fetch: typeof fetch;
  /** Undefined if the call consumes nothing of the limits, or shall not wait for them. */
  pacer: Pacer | undefined;
  onRateLimit(rateLimit: RateLimit): void;
}

export interface Call<Result> {
  method: "GET" | "POST";
  url: string;
  /** Shows the limits, and consumes nothing. A paced client begins with it. */
  usageURL: string;
  headers: Headers;
  body?: string | undefined;
  /** Reads a successful response. It throws if that is not what the service sends. */
  read(text: string, headers: Headers): Result;
}

/** The longest that setTimeout can wait. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 8_000;
/** Added to waits that the service demands, because other clients wait for the same time. */
const MAX_JITTER_MS = 1_000;

/** Makes a call. */
export async function send<Result>(
  call: Call<Result>,
  { fetch, pacer, onRateLimit, onRequest, onResponse, onWait }: Transport,
  { signal, maxRetries = 2, timeoutMs = 10_000, totalTimeoutMs = 90_000, maxWaitMs = 60_000 }: CallOptions,
): Promise<Result> {
  const { method, url, headers } = call;
  const deadlineMs = performance.now() + totalTimeoutMs;
  const isTooLong = (waitMs: number) => performance.now() + waitMs >= deadlineMs;
  let attempts = 0;
  for (;;) {
    try {
      const number = await admit();
      attempts += 1;
      return await exchange(call, attempts, number);
    } catch (error) {
      if (!(error instanceof PetstoreError)) throw error;
      error.attempts = attempts;
      error.idempotencyKey = headers.get("Idempotency-Key") ?? undefined;
      // Without a response, it is as after a 500.
      const { status = 500 } = error as Partial<ApiError>;
      const { retryAfterMs = 0 } = error;
      const waitMs = retryAfterMs + Math.random() * (retryAfterMs > 0 ? MAX_JITTER_MS : backoffMs(attempts));
      const isTransient = status === 408 || status === 429 || status >= 500;
      if (!isTransient || attempts > maxRetries || retryAfterMs > maxWaitMs || isTooLong(waitMs)) throw error;
      onWait?.({ method, url, attempt: attempts + 1, waitMs, error });
      await sleep(waitMs);
    }
  }

  /** Waits until the limits have room. Throws at once if that takes too long. */
  async function admit(): Promise<number | undefined> {
    const place = pacer?.enter();
    try {
      for (;;) {
        signal?.throwIfAborted();
        // A timer may have been late.
        if (isTooLong(0)) throw timeoutError(totalTimeoutMs);
        const delay = place && pacer?.delay(place, performance.now());
        if (!delay) {
          const number = place && pacer?.send(place, performance.now() + timeoutMs);
          if (!pacer || pacer.isInformed) return number;
          // If it fails, the call itself shows the limits.
          const usage = { ...call, method: "GET", url: call.usageURL, body: undefined, read() {} } as const;
          await exchange(usage, attempts + 1, number).catch(rethrowOthers);
          pacer.isInformed = true;
          continue;
        }
        const { askAgainMs, totalMs } = delay;
        if (totalMs !== undefined && (askAgainMs > maxWaitMs || isTooLong(totalMs))) throw exhausted(totalMs);
        const leftMs = deadlineMs - performance.now();
        const jitterMs = Math.random() * Math.min(askAgainMs, MAX_JITTER_MS, leftMs - askAgainMs);
        const waitMs = Math.min(askAgainMs + jitterMs, leftMs);
        if (totalMs !== undefined) onWait?.({ method, url, attempt: attempts + 1, waitMs });
        await sleep(waitMs);
      }
    } finally {
      if (place) pacer?.leave(place);
    }
  }

  /** Sends one request, and reads its response. `number` is the pacer's. */
  async function exchange<Read>(
    { method, url, headers, body, read }: Call<Read>,
    attempt: number,
    number: number | undefined,
  ): Promise<Read> {
    const sentMs = performance.now();
    const event = { method, url, attempt };
    let retryAfterMs: number | undefined;
    let rateLimit: RateLimit | undefined;
    let clockMs = 0;
    try {
      onRequest?.(event);
      const done = await inTime(Math.min(timeoutMs, deadlineMs - sentMs), async (within) => {
        const init = { method, headers, body: body ?? null, signal: within, redirect: "manual" } as const;
        const response = await fetch(url, init);
        retryAfterMs = readRetryAfterMs(response.headers);
        rateLimit = parseRateLimit(response.headers);
        clockMs = performance.now() - Date.now();
        const text = await response.text();
        const result = response.ok ? { read: read(text, response.headers) } : undefined;
        return { status: response.status, headers: response.headers, text, result };
      });
      const { status, headers: received, text, result } = done;
      onResponse?.({ ...event, status, headers: received, durationMs: performance.now() - sentMs });
      if (result === undefined) throw errorOf(status, received, text);
      return result.read;
    } catch (error) {
      // Also if the body is missing.
      if (error instanceof PetstoreError) error.retryAfterMs = retryAfterMs;
      throw error;
    } finally {
      if (number) pacer?.settle(number, rateLimit, clockMs);
      if (rateLimit) onRateLimit(rateLimit);
    }
  }

  /** Does the work of a request, unless the time is over or the call is aborted before it is done. */
  async function inTime<Done>(timeMs: number, work: (signal: AbortSignal) => Promise<Done>): Promise<Done> {
    const ended = new AbortController();
    // Also ends the wait for a fetch that ignores its signal.
    const end = new Promise<never>((_, reject) => {
      ended.signal.addEventListener("abort", () => reject(ended.signal.reason));
    });
    const abort = () => ended.abort(signal?.reason);
    const timer = setTimeout(() => ended.abort(timeoutError(timeMs)), Math.min(timeMs, MAX_TIMER_MS));
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    try {
      return await Promise.race([work(ended.signal), end]);
    } catch (cause) {
      throw ended.signal.aborted ? ended.signal.reason : connectionError(cause);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Does nothing until the time is over. */
  function sleep(timeMs: number): Promise<void> {
    return inTime(timeMs, () => new Promise<void>(() => {})).catch(rethrowOthers);
  }
}

function rethrowOthers(error: unknown): void {
  if (!(error instanceof PetstoreError)) throw error;
}

/** The longest backoff after this many attempts: exponential, with full jitter. */
function backoffMs(attempts: number): number {
  return Math.min(MAX_BACKOFF_MS, MIN_BACKOFF_MS * 2 ** (attempts - 1));
}

/** The error of a call that is not sent, because a 429 is certain. */
function exhausted(waitMs: number): RateLimitError {
  const message = `no requests left for ${Math.ceil(waitMs / 1000)} s, too long for this call`;
  const error = new RateLimitError(429, { code: "rate_limit_exceeded", message }, new Headers());
  error.retryAfterMs = Math.ceil(waitMs);
  return error;
}

function timeoutError(timeMs: number): TimeoutError {
  return new TimeoutError(`no complete response in ${Math.round(timeMs)} ms`);
}

/** Node's fetch says what happened in the cause of its error only. */
function connectionError(cause: unknown): ConnectionError {
  const error = cause as (Error & { cause?: { code?: string; message?: string } }) | undefined;
  const reason = error?.cause?.code || error?.cause?.message || error?.message;
  return new ConnectionError(`no valid response: ${reason}`, { cause });
}
