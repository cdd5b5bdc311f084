// A service in memory, with which programs are tested without network: its `fetch` is an option of the client. It takes all requests for
// those of one key, and the time is that of Date, which tests may fake. It never bans, and does not check keys, media types and sizes.

import type { ErrorCode } from "./errors.ts";
import { parse, stringify } from "./json.ts";
import type { NewPet, Pet, Usage } from "./schema.ts";
import { CLOCK } from "./waits.ts";

export interface TestServiceOptions {
  /** @default 60 */
  perMinute?: number;
  /** @default 1_000 */
  perDay?: number;
}

/**
 * What a request gets instead of being done: an error of the service with this status, a response, a failure of `fetch`, or nothing at all.
 * With `lost` it is done, and then `fetch` fails.
 */
export type TestAnswer = 500 | 503 | Response | Error | "silence" | "lost";

const STATUSES = ["available", "pending", "sold"];
const STATUS_PROBLEM = `status: must be one of ${STATUSES.join(", ")}`;

export class TestService {
  /** In the order of their ids. Tests may change it. */
  readonly pets: Pet[] = [];
  /** All requests so far, such as `GET /v1/pets?limit=2`, also refused and failed ones. */
  readonly requests: string[] = [];
  /** What the next requests get, one each. Only one that is `lost` counts for the limits. */
  readonly nextAnswers: TestAnswer[] = [];
  readonly #windows: ReturnType<typeof newWindow>[];
  readonly #created = new Map<string, Pet>();

  constructor({ perMinute = 60, perDay = 1_000 }: TestServiceOptions = {}) {
    // The client waits by the same clock.
    (globalThis as { [CLOCK]?: () => number })[CLOCK] = () => Date.now();
    this.#windows = [newWindow("minute", 60, perMinute), newWindow("day", 86_400, perDay)];
  }

  /** The option of the client. */
  readonly fetch: typeof globalThis.fetch = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init);
    const { pathname, search, searchParams } = new URL(request.url);
    this.requests.push(`${request.method} ${pathname}${search}`);
    const nowMs = Date.now();
    for (const window of this.#windows) {
      const startMs = nowMs - (nowMs % (window.seconds * 1_000));
      if (startMs !== window.startMs) Object.assign(window, { startMs, used: 0 });
    }
    const answer = this.nextAnswers.shift();
    if (answer instanceof Error) throw answer;
    if (answer === "silence")
      return new Promise((_, reject) => {
        request.signal.addEventListener("abort", () => reject(request.signal.reason));
      });
    if (answer instanceof Response) return answer;
    if (typeof answer === "number")
      return this.#error(answer, answer === 500 ? "internal_error" : "service_unavailable", "try again");
    const response = this.#do(request.method, pathname, searchParams, await request.text(), request.headers);
    if (answer === "lost") throw new TypeError("fetch failed: the response was lost");
    return response;
  };

  #do(method: string, pathname: string, parameters: URLSearchParams, body: string, headers: Headers) {
    const [, resource, id] = /^\/v1\/(pets|usage)(?:\/(-?\d+))?$/.exec(pathname) ?? [];
    if (resource === "usage") return this.#usage();
    const [full] = this.#windows.filter(({ used, limit }) => used >= limit).slice(-1);
    if (full) {
      const problem = `limit of ${full.limit} requests per ${full.name} exceeded`;
      return this.#error(429, "rate_limit_exceeded", problem, { "Retry-After": `${leftOf(full)}` });
    }
    for (const window of this.#windows) window.used += 1;
    const found = this.pets.find((pet) => `${pet.id}` === id);
    if (!resource) return this.#error(404, "not_found", "no operation has this path");
    if (id !== undefined && !found) return this.#error(404, "not_found", "no pet has this ID");
    if (!found && method === "POST") return this.#create(body, headers.get("Idempotency-Key") ?? undefined);
    if (method !== "GET") return this.#error(405, "method_not_allowed", `no ${method}`);
    return found ? this.#respond(200, found) : this.#list(parameters);
  }

  #create(body: string, key: string | undefined): Response {
    const problem = problemWith(body);
    if (problem !== undefined) return this.#error(400, "invalid_request", problem);
    const { name, categoryId, status } = parse<NewPet & { categoryId: bigint }>(body);
    const known = key === undefined ? undefined : this.#created.get(key);
    const isSame = known?.name === name && known.categoryId === categoryId && known.status === status;
    if (known && !isSame)
      return this.#error(422, "idempotency_key_reused", "Idempotency-Key: was used for a different pet");
    if (known) return this.#respond(201, known, { "Idempotent-Replayed": "true" });
    const id = (this.pets.at(-1)?.id ?? 0n) + 1n;
    const pet: Pet = { id, name, categoryId, ...(status && { status }) };
    this.pets.push(pet);
    if (key !== undefined) this.#created.set(key, pet);
    return this.#respond(201, pet);
  }

  #list(parameters: URLSearchParams): Response {
    const limit = Number(parameters.get("limit") ?? 20);
    if (!(limit >= 1 && limit <= 100))
      return this.#error(400, "invalid_request", "limit: must be an integer from 1 to 100");
    const status = parameters.get("status") ?? undefined;
    const cursor = parameters.get("cursor") ?? `${-(2n ** 63n)}`;
    if (status !== undefined && !STATUSES.includes(status))
      return this.#error(400, "invalid_request", STATUS_PROBLEM);
    if (!/^-?\d+$/.test(cursor))
      return this.#error(400, "invalid_request", "cursor: must come from the Link header of a previous page");
    const found = this.pets.filter((pet) => pet.id > BigInt(cursor) && (status ?? pet.status) === pet.status);
    const page = found.slice(0, limit);
    parameters.set("cursor", `${page.at(-1)?.id}`);
    const link = { Link: `</v1/pets?${parameters}>; rel="next"` };
    return this.#respond(200, page, found.length > limit ? link : {});
  }

  #usage(): Response {
    const windows = this.#windows.map(({ name, seconds, limit, used, startMs }) => {
      return [name, { limit, used, remaining: limit - used, reset: startMs / 1_000 + seconds }];
    });
    const usage: Usage = {
      plan: "enterprise",
      windows: Object.fromEntries(windows),
      bannedUntil: null,
      days: [],
    };
    return this.#respond(200, usage);
  }

  #error(status: number, code: ErrorCode, message: string, headers: Record<string, string> = {}): Response {
    return this.#respond(status, { code, message, status }, headers);
  }

  #respond(status: number, body: unknown, more: Record<string, string> = {}): Response {
    const policy = this.#windows.map(({ name, limit, seconds }) => `"${name}";q=${limit};w=${seconds}`);
    const left = this.#windows.map((each) => `"${each.name}";r=${each.limit - each.used};t=${leftOf(each)}`);
    const limits = { "RateLimit-Policy": policy.join(", "), RateLimit: left.join(", ") };
    const headers = { "Content-Type": "application/json", "X-Request-Id": `test-${this.requests.length}` };
    return new Response(stringify(body), { status, headers: { ...headers, ...limits, ...more } });
  }
}

function newWindow(name: "minute" | "day", seconds: number, limit: number) {
  return { name, seconds, limit, startMs: 0, used: 0 };
}

/** In how many seconds the next window begins. */
function leftOf({ startMs, seconds }: ReturnType<typeof newWindow>): number {
  return Math.ceil((startMs - Date.now()) / 1_000) + seconds;
}

/** What is wrong with the body of a creation, in the words of the service. */
function problemWith(body: string): string | undefined {
  let pet: { [Name in keyof NewPet]?: unknown } | null;
  try {
    pet = parse<typeof pet>(body);
  } catch {
    return "body: must be valid JSON";
  }
  if (typeof pet !== "object" || pet === null || Array.isArray(pet)) return "body: must be a JSON object";
  const { name, categoryId, status } = pet;
  if (name === undefined) return "name: is required";
  if (typeof name !== "string") return "name: must be a string";
  if (!/^.{1,255}$/su.test(name)) return "name: must be 1 to 255 characters";
  if (/\0|\p{Cs}/u.test(name)) return "name: must be well-formed Unicode without U+0000";
  if (categoryId === undefined) return "categoryId: is required";
  if (typeof categoryId !== "bigint" || BigInt.asIntN(64, categoryId) !== categoryId)
    return "categoryId: must be a 64-bit integer (-2^63 to 2^63-1)";
  return status === undefined || STATUSES.includes(`${status}`) ? undefined : STATUS_PROBLEM;
}
