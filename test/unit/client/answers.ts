// A client whose requests get chosen answers, for tests on virtual time.

import { vi } from "vitest";
import { type ClientOptions, type CreateOptions, type NewPet, Petstore } from "../../../client/src/index.ts";
import { HEADER } from "../../../src/http/header-names.ts";

export const HOUR_MS = 3_600_000;
export const range = (length: number) => Array.from({ length }, (_, index) => index);
export const KEY = "pet_secret";
export const PETS_URL = "https://petstore.test/v1/pets";
export const PET = '{"id":9223372036854775807,"name":"Rex","categoryId":2}';

/** As much of a usage as the client looks at. */
export const USAGE = '{"windows":{}}';

export type Answer = (signal: AbortSignal, path?: string) => Response | Promise<Response>;

export const answer =
  (status: number, body: string | ReadableStream = PET, headers = {}): Answer =>
  (_, path) =>
    new Response(body === PET && path === "/v1/usage" ? USAGE : body, {
      status,
      headers: { [HEADER.requestId]: "req", ...headers },
    });
export const error = (status: number, code: string, headers = {}) =>
  answer(status, JSON.stringify({ code, message: code, status }), headers);
export const after = (seconds: unknown) => ({ "Retry-After": `${seconds}` });
export const untilAbort: Answer = (signal) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
export const never: Answer = () => new Promise(() => {});
export const bodyOf = (start: (stream: ReadableStreamDefaultController) => void) =>
  new ReadableStream({ start });
export const halfABody: Answer = (signal) =>
  new Response(
    bodyOf((stream) => {
      stream.enqueue(new TextEncoder().encode(PET.slice(0, 9)));
      signal.addEventListener("abort", () => stream.error(signal.reason));
    }),
  );
/** A response whose body never comes. */
export const cutOff =
  (status: number, headers: object): Answer =>
  (signal) => {
    const body = bodyOf((stream) => stream.error(new TypeError("terminated")));
    return answer(status, body, headers)(signal);
  };
export const networkError: Answer = () => {
  throw new TypeError("fetch failed", { cause: { code: "ECONNRESET" } });
};

export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
export const slow: Answer = () => new Promise((resolve) => setTimeout(resolve, HOUR_MS, new Response(PET)));

/** A request of the client, and when it was sent. */
export interface Sent {
  ms: number;
  url: string;
  method: string | undefined;
  headers: Headers;
  key: string | null;
  body: unknown;
}

/** A client whose requests get these answers in turn, the last one again and again. */
export function newStore(answers: Answer[], options: Partial<ClientOptions> = {}) {
  const requests: Sent[] = [];
  let isFirst = true;
  const fetch = async (url: unknown, { method, headers: sent, body, signal }: RequestInit = {}) => {
    // With pacing, the first request is GET /v1/usage.
    if (options.pace && isFirst) {
      isFirst = false;
      return new Response(USAGE);
    }
    const headers = new Headers(sent);
    const key = headers.get("Idempotency-Key");
    requests.push({ ms: performance.now(), url: `${url}`, method, headers, key, body });
    const next = answers[requests.length - 1] ?? answers.at(-1) ?? never;
    return next(signal as AbortSignal, new URL(`${url}`).pathname);
  };
  const base = { apiKey: KEY, baseURL: "https://petstore.test", fetch: fetch as typeof globalThis.fetch };
  return { store: new Petstore({ ...base, ...options }), requests };
}

/** How the creation of a pet ends: its id, or an error; and how long it takes. */
export async function create(store: Petstore, options: CreateOptions = {}) {
  const startMs = performance.now();
  const pet: NewPet = { name: "Rex", categoryId: 2 };
  const done = await store.pets.create(pet, options).then(
    ({ id }) => ({ end: `${id}`, error: undefined }),
    (error) => ({ end: error.name ?? error, error }),
  );
  return { ...done, ms: performance.now() - startMs };
}

/** The same, and lets pass the time that it takes. */
export async function createInTime(store: Petstore, options?: CreateOptions) {
  const done = create(store, options);
  await vi.runAllTimersAsync();
  return done;
}

/** Lets time pass until `done`. */
export async function finish<Result>(done: Promise<Result>): Promise<Result> {
  const state = { isDone: false };
  const end = () => Object.assign(state, { isDone: true });
  done.then(end, end);
  await vi.advanceTimersByTimeAsync(0);
  while (!state.isDone) await vi.advanceTimersToNextTimerAsync();
  return done;
}

/** The headers that show what is left of the minute, such as `r=0;t=20`. */
export const leftOf = (minute: string) => ({
  "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
  RateLimit: `"minute";${minute}, "day";r=940;t=80000`,
});
export const full = (minute: string) => answer(201, PET, leftOf(minute));
