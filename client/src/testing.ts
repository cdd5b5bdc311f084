// A service in memory, with which programs are tested without network: its `fetch` is an option of the client. It takes all requests for
// those of one key, and reads the time from Date, which tests may fake. It never bans, and does not check keys, media types and sizes.

import type { ErrorCode } from "./errors.ts";
import { parse, stringify } from "./json.ts";
import type { NewPet, Pet, Usage } from "./schema.ts";

export interface TestServiceOptions {
  /** @default 60 */
  perMinute?: number;
  /** @default 1_000 */
  perDay?: number;
}

/** What a request gets: an error of the service with this status, a response, a failure of `fetch`, or nothing at all. */
export type TestAnswer = 500 | 503 | Response | Error | "silence";

const STATUSES = ["available", "pending", "sold"];

export class TestService {
  /** In the order of their ids. Tests may change it. */
  readonly pets: Pet[] = [];
  /** All requests so far, such as `POST /v1/pets`, also refused and failed ones. */
  readonly requests: string[] = [];
  /** What the next requests get, one each, instead of being done. They don't count for the limits. */
  readonly nextAnswers: TestAnswer[] = [];
  readonly #windows: ReturnType<typeof newWindow>[];
  readonly #created = new Map<string, { body: string; pet: Pet }>();

  constructor({ perMinute = 60, perDay = 1_000 }: TestServiceOptions = {}) {
    this.#windows = [newWindow("minute", 60, perMinute), newWindow("day", 86_400, perDay)];
  }

  /** The option of the client. */
  readonly fetch: typeof globalThis.fetch = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init);
    const { pathname, searchParams } = new URL(request.url);
    this.requests.push(`${request.method} ${pathname}`);
    for (const window of this.#windows) {
      const startMs = Date.now() - (Date.now() % (window.seconds * 1_000));
      if (startMs !== window.startMs) Object.assign(window, { startMs, used: 0 });
    }
    const answer = this.nextAnswers.shift();
    if (answer instanceof Error) throw answer;
    if (answer === "silence")
      return new Promise((_, reject) => {
        request.signal.addEventListener("abort", () => reject(request.signal.reason));
      });
    if (answer instanceof Response) return answer;
    if (answer !== undefined)
      return this.#error(answer, answer === 500 ? "internal_error" : "service_unavailable", "try again");
    const [, resource, id] = /^\/v1\/(pets|usage)(?:\/(-?\d+))?$/.exec(pathname) ?? [];
    if (resource === "usage") return this.#usage();
    const [full] = this.#windows.filter(({ used, limit }) => used >= limit).slice(-1);
    if (full)
      return this.#error(429, "rate_limit_exceeded", `the limit of the ${full.name} is used up`, {
        "Retry-After": `${leftOf(full)}`,
      });
    for (const window of this.#windows) window.used += 1;
    const found = this.pets.find((pet) => `${pet.id}` === id);
    if (!resource || (id !== undefined && !found)) return this.#error(404, "not_found", "no such resource");
    if (!found && request.method === "POST") return this.#create(await request.text(), request.headers);
    if (request.method !== "GET") return this.#error(405, "method_not_allowed", `no ${request.method}`);
    return found ? this.#respond(200, found) : this.#list(searchParams);
  };

  #create(body: string, headers: Headers): Response {
    const key = headers.get("Idempotency-Key");
    const earlier = key === null ? undefined : this.#created.get(key);
    if (earlier && earlier.body !== body)
      return this.#error(422, "idempotency_key_reused", "the idempotency key was used for another body");
    if (earlier) return this.#respond(201, earlier.pet, { "Idempotent-Replayed": "true" });
    const { name, categoryId, status } = parse<Partial<NewPet>>(body);
    if (typeof name !== "string" || !/^.{1,255}$/su.test(name))
      return this.#error(400, "invalid_request", "name: must be 1 to 255 characters");
    if (typeof categoryId !== "bigint")
      return this.#error(400, "invalid_request", "categoryId: must be an integer of 64 bits");
    if (status !== undefined && !STATUSES.includes(status))
      return this.#error(400, "invalid_request", `status: must be one of ${STATUSES.join(", ")}`);
    const id = (this.pets.at(-1)?.id ?? 0n) + 1n;
    const pet: Pet = { id, name, categoryId, ...(status && { status }) };
    this.pets.push(pet);
    if (key !== null) this.#created.set(key, { body, pet });
    return this.#respond(201, pet);
  }

  #list(parameters: URLSearchParams): Response {
    const limit = Number(parameters.get("limit") ?? 20);
    if (!(limit >= 1 && limit <= 100))
      return this.#error(400, "invalid_request", "limit: must be an integer from 1 to 100");
    const [status, cursor] = [parameters.get("status"), BigInt(parameters.get("cursor") ?? -(2n ** 63n))];
    const found = this.pets.filter((pet) => pet.id > cursor && (status ?? pet.status) === pet.status);
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
