// A service in memory, with which programs are tested without network: its `fetch` is an option of the client. It takes all requests for
// those of one key, and reads the time from Date, which tests may fake. It never bans, and does not check keys, media types and sizes.

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

interface Window {
  name: "minute" | "day";
  seconds: number;
  limit: number;
  startMs: number;
  used: number;
}

const CODES: Record<number, string> = {
  400: "invalid_request",
  404: "not_found",
  405: "method_not_allowed",
  422: "idempotency_key_reused",
  429: "rate_limit_exceeded",
  500: "internal_error",
  503: "service_unavailable",
};
const STATUSES = ["available", "pending", "sold"];

export class TestService {
  /** In the order of their ids. Tests may change it. */
  readonly pets: Pet[] = [];
  /** All requests so far, such as `POST /v1/pets`, also refused and failed ones. */
  readonly requests: string[] = [];
  /** What the next requests get, one each, instead of being done. They don't count for the limits. */
  readonly nextAnswers: TestAnswer[] = [];
  readonly #windows: Window[];
  readonly #created = new Map<string, { body: string; pet: Pet }>();

  constructor({ perMinute = 60, perDay = 1_000 }: TestServiceOptions = {}) {
    const none = { startMs: 0, used: 0 };
    this.#windows = [
      { name: "minute", seconds: 60, limit: perMinute, ...none },
      { name: "day", seconds: 86_400, limit: perDay, ...none },
    ];
  }

  /** The option of the client. */
  readonly fetch: typeof globalThis.fetch = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init);
    const { pathname, searchParams } = new URL(request.url);
    this.requests.push(`${request.method} ${pathname}`);
    const answer = this.nextAnswers.shift();
    if (answer instanceof Error) throw answer;
    if (answer === "silence")
      return new Promise((_, reject) => {
        request.signal.addEventListener("abort", () => reject(request.signal.reason));
      });
    if (answer instanceof Response) return answer;
    const nowMs = Date.now();
    for (const window of this.#windows) {
      const startMs = nowMs - (nowMs % (window.seconds * 1_000));
      if (startMs !== window.startMs) Object.assign(window, { startMs, used: 0 });
    }
    const path = pathname.replace(/^\/v1/, "");
    if (answer !== undefined) return this.#error(answer, "try again later");
    if (path === "/usage") return this.#respond(200, this.#usage());
    const [full] = this.#windows.filter(({ used, limit }) => used >= limit).slice(-1);
    if (full)
      return this.#error(429, `the limit of the ${full.name} is used up`, {
        "Retry-After": `${leftOf(full)}`,
      });
    for (const window of this.#windows) window.used += 1;
    const resource = /^\/pets(?:\/(-?\d+))?$/.exec(path);
    if (!resource) return this.#error(404, "no such resource");
    const [, id] = resource;
    if (id === undefined && request.method === "POST")
      return this.#create(await request.text(), request.headers);
    if (id === undefined && request.method === "GET") return this.#list(searchParams);
    if (request.method !== "GET") return this.#error(405, `no ${request.method}`);
    const found = this.pets.find((pet) => `${pet.id}` === id);
    return found ? this.#respond(200, found) : this.#error(404, "no such resource");
  };

  #create(body: string, headers: Headers): Response {
    const key = headers.get("Idempotency-Key");
    const earlier = key === null ? undefined : this.#created.get(key);
    if (earlier && earlier.body !== body)
      return this.#error(422, "the idempotency key was used for another body");
    if (earlier) return this.#respond(201, earlier.pet, { "Idempotent-Replayed": "true" });
    const { name, categoryId, status } = parse<Partial<NewPet>>(body);
    const length = typeof name === "string" ? [...name].length : 0;
    if (length < 1 || length > 255) return this.#error(400, "name: must be 1 to 255 characters");
    if (typeof categoryId !== "bigint") return this.#error(400, "categoryId: must be an integer of 64 bits");
    if (status !== undefined && !STATUSES.includes(status))
      return this.#error(400, `status: must be one of ${STATUSES.join(", ")}`);
    const id = (this.pets.at(-1)?.id ?? 0n) + 1n;
    const pet: Pet = { id, name: `${name}`, categoryId, ...(status && { status }) };
    this.pets.push(pet);
    if (key !== null) this.#created.set(key, { body, pet });
    return this.#respond(201, pet);
  }

  #list(parameters: URLSearchParams): Response {
    const limit = Number(parameters.get("limit") ?? 20);
    if (!(limit >= 1 && limit <= 100)) return this.#error(400, "limit: must be an integer from 1 to 100");
    const [status, cursor] = [parameters.get("status"), BigInt(parameters.get("cursor") ?? -(2n ** 63n))];
    const found = this.pets.filter((pet) => pet.id > cursor && (status ?? pet.status) === pet.status);
    const page = found.slice(0, limit);
    parameters.set("cursor", `${page.at(-1)?.id}`);
    return this.#respond(
      200,
      page,
      found.length > limit ? { Link: `</v1/pets?${parameters}>; rel="next"` } : {},
    );
  }

  #usage(): Usage {
    const entries = this.#windows.map((window) => {
      const { name, seconds, limit, used, startMs } = window;
      return [name, { limit, used, remaining: limit - used, reset: startMs / 1_000 + seconds }];
    });
    return { plan: "enterprise", windows: Object.fromEntries(entries), bannedUntil: null, days: [] };
  }

  #error(status: number, message: string, headers: Record<string, string> = {}): Response {
    return this.#respond(status, { code: CODES[status], message, status }, headers);
  }

  #respond(status: number, body: unknown, headers: Record<string, string> = {}): Response {
    const list = (text: (window: Window) => string) =>
      this.#windows.map((each) => `"${each.name}";${text(each)}`).join(", ");
    return new Response(stringify(body), {
      status,
      headers: {
        "Content-Type": "application/json",
        "X-Request-Id": `test-${this.requests.length}`,
        "RateLimit-Policy": list(({ limit, seconds }) => `q=${limit};w=${seconds}`),
        RateLimit: list((window) => `r=${window.limit - window.used};t=${leftOf(window)}`),
        ...headers,
      },
    });
  }
}

/** In how many seconds the next window begins. */
function leftOf({ startMs, seconds }: Window): number {
  return Math.ceil((startMs - Date.now()) / 1_000) + seconds;
}
