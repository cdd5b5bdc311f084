// One call: it waits for admission, then exchanges a request for a response, until one succeeds or a failure ends it.

import type { ApiResponse } from "./api-promise.ts";
import {
  ApiError,
  ConnectionError,
  type ErrorDetails,
  PetstoreError,
  RateLimitError,
  TimeoutError,
} from "./errors.ts";
import type { Limiter, Ticket } from "./limiter.ts";
import type { Closed } from "./limits.ts";
import { type EndEvent, isVisible, type RequestEvent, type Settings } from "./options.ts";
import { parseRateLimit } from "./rate-limit.ts";
import type { Error as ErrorBody } from "./schema.ts";
import { now, sleep, TIME_OVER, within } from "./waits.ts";

const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 8_000;

/** Added to waits that the service demands, because other clients wait for the same time. */
const MAX_JITTER_MS = 1_000;

/** How long a creation is repeated at most. The service knows its Idempotency-Key for a minute longer. */
const MAX_REPEAT_MS = 86_340_000;

/** Its responses show the limits, and consume nothing of them. */
export const USAGE_PATH = "/usage";

/** How much of an unexpected body an error has, in characters. */
const MAX_SHOWN_BODY = 2_048;

export interface Request<Data> {
  method: string;
  url: string;
  /** For events and errors: without query values that could be secrets. */
  shownURL: string;
  headers: Headers;
  body?: string | undefined;
  /** It consumes nothing of the limits. */
  isFree: boolean;
  /** Its stack shows the caller. */
  caller: Error;
  /** Reads a successful response. Throws if that is not what the service sends. */
  read(text: string, headers: Headers): Data;
}

type Result<Data> = ApiResponse<Data> | PetstoreError;

let calls = 0;

export class Call<Data> {
  readonly #id = ++calls;
  readonly #request: Request<Data>;
  readonly #limiter: Limiter;
  readonly #options: Settings;
  readonly #startMs = now();
  #deadlineMs: number;
  #attempts = 0;
  #latest: Pick<EndEvent, "status" | "requestId"> = { status: undefined, requestId: undefined };

  constructor(request: Request<Data>, limiter: Limiter, options: Settings) {
    this.#request = request;
    this.#limiter = limiter;
    this.#options = options;
    this.#deadlineMs = this.#startMs + options.totalTimeoutMs;
  }

  async send(): Promise<ApiResponse<Data>> {
    let error: unknown;
    try {
      return await this.#send();
    } catch (failure) {
      error = failure;
      throw failure;
    } finally {
      if (this.#options.onEnd) await this.#announceEnd(this.#options.onEnd, error);
    }
  }

  async #send(): Promise<ApiResponse<Data>> {
    let failed: PetstoreError | undefined;
    try {
      for (;;) {
        const ticket = await this.#admission(failed);
        this.#attempts += 1;
        const result = await this.#exchange(this.#request, ticket, this.#attempts);
        if (!(result instanceof PetstoreError)) return result;
        failed = result;
        await this.#pause(failed);
      }
    } catch (error) {
      if (error === TIME_OVER) throw this.#error(TimeoutError, `${this}: not sent within totalTimeoutMs`, {});
      throw error;
    }
  }

  /** Waits until the request may be sent. Throws at once if that takes too long. */
  async #admission(failed: PetstoreError | undefined): Promise<Ticket> {
    const ticket = this.#limiter.enter(this.#request.isFree, failed !== undefined);
    const { signal, maxWaitMs } = this.#options;
    let isAnnounced = false;
    let latest: Closed | undefined;
    try {
      for (;;) {
        signal?.throwIfAborted();
        const nowMs = now();
        const leftMs = this.#deadlineMs - nowMs;
        // A timer may have been late, or others have used what was left.
        if (leftMs <= 0) throw failed ?? (latest ? this.#exhausted(latest) : TIME_OVER);
        const wait = this.#limiter.admit(ticket, nowMs, this.#options);
        if (wait === undefined) return ticket;
        if (wait === "ask") {
          await this.#askForLimits();
          continue;
        }
        const { askAgainMs, closed } = wait;
        latest = closed ?? latest;
        if (closed && (closed.nextMs > maxWaitMs || closed.totalMs >= leftMs))
          throw failed && failed.status !== 429 ? failed : this.#exhausted(closed);
        if (closed && !isAnnounced) {
          isAnnounced = true;
          await this.#announce(closed.nextMs, closed.totalMs, failed);
        } else await sleep(Math.min(askAgainMs, leftMs), signal, ticket);
      }
    } catch (error) {
      this.#limiter.leave(ticket);
      throw error;
    }
  }

  /** Waits before the request is repeated. Throws if that can't help, or takes too long. */
  async #pause(error: PetstoreError): Promise<void> {
    const waitMs = pauseAfter(error, this.#attempts, this.#options);
    const isRefused = error.status === 429;
    // All calls of the client that consume something wait, for their admission.
    if (isRefused) this.#limiter.limits.refuse(error.retryAfterMs || (waitMs ?? 0), error);
    const untilMs = now() + (waitMs ?? 0);
    if (waitMs === undefined || untilMs >= this.#deadlineMs) throw error;
    if (isRefused && !this.#request.isFree) return;
    await this.#announce(waitMs, waitMs, error);
    await sleep(untilMs - now(), this.#options.signal);
  }

  async #announce(hookMs: number, waitMs: number, error: PetstoreError | undefined): Promise<void> {
    const event = { ...this.#event(this.#attempts + 1), waitMs: Math.ceil(waitMs), error };
    await this.#tell(hookMs, this.#options.onWait, event);
  }

  async #announceEnd(onEnd: NonNullable<Settings["onEnd"]>, error: unknown): Promise<void> {
    const { attempt: attempts, ...event } = this.#event(this.#attempts);
    const endMs = now();
    const durationMs = Math.round(endMs - this.#startMs);
    const leftMs = Math.max(0, Math.min(this.#options.timeoutMs, this.#deadlineMs - endMs));
    await this.#tell(leftMs, onEnd, { ...event, attempts, durationMs, ...this.#latest, error });
  }

  /** Calls a hook, and waits for it for at most `hookMs`. */
  async #tell<Event>(
    hookMs: number,
    hook: ((event: Event) => unknown) | undefined,
    event: Event,
  ): Promise<void> {
    try {
      if (hook) await within(hookMs, this.#options.signal, async () => hook(event));
    } catch (failure) {
      if (failure !== TIME_OVER) throw failure;
    }
  }

  /** Asks for the limits, which consumes nothing. If that fails, the call itself shows them. */
  async #askForLimits(): Promise<void> {
    const url = this.#options.baseURL + USAGE_PATH;
    const usage = { ...this.#request, method: "GET", url, shownURL: url, body: undefined, read() {} };
    const result = await this.#exchange(usage, this.#limiter.startFree(), this.#attempts + 1);
    this.#limiter.limits.usageAskedMs = now();
    if (result instanceof PetstoreError) this.#limiter.limits.refuse(result.retryAfterMs ?? 0, result);
  }

  /** Sends one request, and reads its response. Returns an error unless the service has done what the request asks for. */
  async #exchange<Read>(request: Request<Read>, ticket: Ticket, attempt: number): Promise<Result<Read>> {
    const { signal, timeoutMs, maxResponseBytes, fetch, onRequest, onResponse } = this.#options;
    const sentMs = now();
    if (request.headers.has("Idempotency-Key"))
      this.#deadlineMs = Math.min(this.#deadlineMs, sentMs + MAX_REPEAT_MS);
    const timeMs = Math.min(timeoutMs, this.#deadlineMs - sentMs);
    const event = this.#event(attempt, request);
    let response: Response | undefined;
    try {
      return await within(timeMs, signal, async (ended) => {
        await onRequest?.(event);
        const init = await this.#init(request, ended);
        ended.throwIfAborted();
        ticket.isSent = true;
        const fetchMs = now();
        let text: string | undefined;
        let result: Result<Read>;
        let shown = this.#latest;
        try {
          response = await fetch(request.url, init);
          const { ok, status, headers } = response;
          const requestId = headers.get("X-Request-Id") ?? undefined;
          shown = { status, requestId };
          if (attempt === this.#attempts) this.#latest = shown;
          this.#limiter.answer(ticket, sentMs, parseRateLimit(headers));
          text = await readText(response, maxResponseBytes);
          result = ok
            ? { data: request.read(text, headers), response, requestId }
            : this.#apiError(response, text);
        } catch (cause) {
          result = this.#connectionError(cause, response, text);
        }
        ended.throwIfAborted();
        if (response && text !== undefined) {
          const durationMs = Math.round(now() - fetchMs);
          const headers = Object.fromEntries(response.headers);
          await onResponse?.({ ...event, ...shown, status: response.status, headers, durationMs });
        }
        return result;
      });
    } catch (error) {
      if (error !== TIME_OVER) throw error;
      const option = timeMs < timeoutMs ? "the rest of totalTimeoutMs" : "timeoutMs";
      const problem = `${this}: no complete response in ${Math.round(timeMs)} ms, ${option}`;
      return this.#error(TimeoutError, problem, { response });
    } finally {
      this.#limiter.leave(ticket);
    }
  }

  async #init({ method, headers, body = "" }: Request<unknown>, signal: AbortSignal): Promise<RequestInit> {
    const { apiKey } = this.#options;
    const sent = new Headers(headers);
    const key = typeof apiKey === "function" ? await apiKey() : apiKey;
    if (!isVisible(key)) throw new TypeError("apiKey: the function must return visible ASCII characters");
    if (!sent.has("Authorization")) sent.set("Authorization", `Bearer ${key}`);
    return { method, headers: sent, body: body || null, signal, redirect: "manual" };
  }

  #event(attempt: number, { method, shownURL }: Request<unknown> = this.#request): RequestEvent {
    return { callId: this.#id, method, url: shownURL, attempt };
  }

  #apiError(response: Response, text: string): PetstoreError {
    const Class = response.status === 429 ? RateLimitError : ApiError;
    const known = readErrorBody(text);
    // People see the message of the service as it is.
    if (known) return this.#error(Class, known.message, { response, code: known.code });
    const problem = `${this}: unexpected response with status ${response.status}`;
    return this.#error(Class, problem, { response, body: text.slice(0, MAX_SHOWN_BODY) });
  }

  #connectionError(cause: unknown, response?: Response, text?: string): PetstoreError {
    // Node's fetch says what happened in the cause of its error only.
    const error = cause as (Error & { cause?: { code?: string; message?: string } }) | undefined;
    const problem = `${this}: no valid response: ${error?.cause?.code || error?.cause?.message || error?.message}`;
    return this.#error(ConnectionError, problem, { response, body: text?.slice(0, MAX_SHOWN_BODY), cause });
  }

  /** The error of a call that is not sent, because it would be refused for certain. */
  #exhausted({ totalMs, refusal, window }: Closed): PetstoreError {
    const { code, status } = (refusal ?? { code: "rate_limit_exceeded", status: 429 }) as ApiError;
    const retryAfterMs = Math.ceil(totalMs);
    const reason = window ? `the limit per ${window} is used up` : `a response had status ${status}`;
    const problem = `${this}: not sent, because ${reason}: nothing is admitted for ${retryAfterMs} ms`;
    const Class = status === 429 ? RateLimitError : ApiError;
    return this.#error(Class, problem, { code, response: { status, headers: new Headers() }, retryAfterMs });
  }

  #error(Class: typeof PetstoreError, message: string, details: ErrorDetails): PetstoreError {
    const { method, shownURL: url, headers, caller } = this.#request;
    const idempotencyKey = headers.get("Idempotency-Key") ?? undefined;
    return new Class(message, { method, url, idempotencyKey, attempts: this.#attempts, caller, ...details });
  }

  toString(): string {
    return `${this.#request.method} ${this.#request.shownURL}`;
  }
}

/** How long to wait before the request is repeated, after so many attempts. Undefined if that can't help. */
function pauseAfter(error: PetstoreError, attempts: number, options: Settings): number | undefined {
  const { status = 0, retryAfterMs: leastMs = 0 } = error;
  const isTransient = !(error instanceof ApiError) || status >= 500 || [408, 429].includes(status);
  if (!isTransient || attempts > options.maxRetries || leastMs > options.maxWaitMs) return undefined;
  // Exponential, with full jitter.
  const backoffMs = Math.min(MAX_BACKOFF_MS, MIN_BACKOFF_MS * 2 ** (attempts - 1));
  return leastMs + Math.random() * (leastMs > 0 ? MAX_JITTER_MS : backoffMs);
}

/** Undefined if the body is none of the service's errors, such as a page of HTML. */
function readErrorBody(text: string): ErrorBody | undefined {
  try {
    const body = JSON.parse(text);
    return typeof body.code === "string" && typeof body.message === "string" ? body : undefined;
  } catch {
    return undefined;
  }
}

/** Reads a body, of which errors have as much as is allowed. Throws if that of a success is larger. */
async function readText(response: Response, maxBytes: number): Promise<string> {
  const reader = response.body?.getReader();
  // Some implementations of fetch have no streams.
  if (!reader) return response.text();
  const decoder = new TextDecoder();
  let text = "";
  for (let bytes = 0; bytes <= maxBytes; ) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.length;
    text += decoder.decode(value, { stream: true });
  }
  reader.cancel().catch(() => {});
  if (response.ok) throw new Error(`the body is larger than ${maxBytes} bytes`);
  return text;
}
