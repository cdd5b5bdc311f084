// Clients for tests in the Worker: real requests, with keys from the same code as the commands.

import { env, exports } from "cloudflare:workers";
import { expect, vi } from "vitest";
import { HEADER } from "../../../src/http/header-names.ts";
import type { Access } from "../../../src/keys/key.ts";
import type { Limits, Plan } from "../../../src/keys/plans.ts";
import { REQUESTS_PER_MINUTE } from "../../../src/limits/address-counter.ts";
import { BAN_GRACE_MS } from "../../../src/limits/object/bans.ts";
import type { AcquireRequest, AcquireResult } from "../../../src/limits/protocol.ts";
import { createKey } from "../../../src/operators/admin.ts";
import { encodeCursor } from "../../../src/pets/cursor.ts";
import { limitsWith } from "../key-record.ts";
import type { Exchange } from "../openapi-validator.ts";
import { objectOf, REAL } from "./bindings.ts";
import { pass } from "./time.ts";

export const ORIGIN = "https://petstore.example";

/** The body of a creation, and the request. */
export const REX = `{"name":"Rex","categoryId":1}`;
export const POST = { method: "POST", headers: { "Content-Type": "application/json" }, body: REX };
/** A list without a next page, which is never cached. */
export const LAST_PAGE = `/v1/pets?cursor=${encodeCursor(2n ** 62n)}`;

/** `limits` are for the enterprise plan only. */
type KeyOptions = { plan?: Plan; limits?: Partial<Limits>; access?: Access; expiresAtMs?: number | null };

/** Who changes keys in tests. */
export const operator = (nowMs = Date.now()) => ({ by: "a test", nowMs });

/** Creates a key. The default is the business plan, whose limits most tests don't reach. */
export async function newKey({ plan = "business", limits, access, expiresAtMs = null }: KeyOptions = {}) {
  const key = { name: "a test", plan, access, expiresAtMs, ...(limits && { limits: limitsWith(limits) }) };
  const created = await createKey(env.KEYS_DB, key, operator());
  return { id: created.key.id, secret: created.secret };
}

/** A call of a key's object with a batch, by default the first call of a new isolate. */
export function batch(requests: number, rest: Partial<AcquireRequest> = {}): AcquireRequest {
  const first = { isolate: crypto.randomUUID(), number: 1, revision: 0 };
  return { ...first, requests, recent: 0, wantsLease: true, lease: null, decisions: [], ...rest };
}

/** Counts a batch at a key's object, as another isolate does. Throws if nothing was counted. */
export async function acquire(keyId: string, request: AcquireRequest): Promise<AcquireResult> {
  const answer = await objectOf(keyId).acquire(request);
  if ("unavailable" in answer || answer.result === undefined) throw new Error(JSON.stringify(answer));
  return answer.result;
}

/** Bans a Free key, by reports of the minute's first refusal, and of those that count. No isolate of the tests knows of the ban yet. */
export async function banKey(keyId: string): Promise<void> {
  const report = (refused: number) => {
    const decisions = [{ number: 1, atMs: Date.now(), admitted: 0, refusedBy: { minute: refused } }];
    return acquire(keyId, batch(0, { number: 2, decisions }));
  };
  await report(1);
  pass(BAN_GRACE_MS);
  await report(181);
}

/** Calls the Worker without a key, from a new address unless `init` has one. */
export async function fetchWithoutKey(path: string, init: RequestInit = {}, origin = ORIGIN) {
  const headers = new Headers(init.headers);
  if (!headers.has("CF-Connecting-IP")) headers.set("CF-Connecting-IP", newAddress());
  const response = await exports.default.fetch(new Request(origin + path, { ...init, headers }));
  await expectDocumented(init.method ?? "GET", path, response);
  return response;
}

/** Uses up the requests without a key that an address has in this minute. */
export async function exhaust(address: string): Promise<void> {
  const send = () => fetchWithoutKey("/v1/nowhere", { headers: { "CF-Connecting-IP": address } });
  await Promise.all(Array.from({ length: REQUESTS_PER_MINUTE }, send));
}

/** Has a response validated against the OpenAPI document, which describes paths under /v1 only, at the end of the test. */
export async function expectDocumented(method: string, path: string, response: Response): Promise<void> {
  const isPreflight = method === "OPTIONS" && response.status === 204;
  if (!path.startsWith("/v1/") || isPreflight) return;
  const { status } = response;
  const headers = Object.fromEntries(response.headers);
  exchanges.push({ method, path, status, headers, body: await response.clone().text() });
}
const exchanges: Exchange[] = [];

/** Validates all responses since the last call, in one request: the validator is in another process. */
export async function validateResponses(): Promise<void> {
  const body = JSON.stringify(exchanges.splice(0));
  const violations = await env.OPENAPI_VALIDATOR.fetch(ORIGIN, { method: "POST", body });
  expect(await violations.json()).toEqual([]);
}

/** An unused address. */
export function newAddress(): string {
  addresses += 1;
  return `198.18.${addresses >> 8}.${addresses & 255}`;
}
let addresses = 0;

export type Client = Awaited<ReturnType<typeof newClient>>;

/** A client with a key of its own. */
export async function newClient(options: KeyOptions = {}) {
  const { id, secret } = await newKey(options);
  const call = (path: string, init: RequestInit = {}, origin = ORIGIN) => {
    const headers = new Headers(init.headers);
    headers.set("Authorization", `Bearer ${secret}`);
    return fetchWithoutKey(path, { ...init, headers }, origin);
  };
  /** Posts a body as it is. */
  const post = (body: BodyInit, headers: HeadersInit = POST.headers) =>
    call("/v1/pets", { method: "POST", body, headers });
  const postOnce = (body: BodyInit, idempotencyKey: string) =>
    post(body, { ...POST.headers, [HEADER.idempotencyKey]: idempotencyKey });
  /** Creates a pet and returns it. */
  const create = async () => {
    const response = await post(REX);
    if (response.status !== 201) throw new Error(`${response.status} ${await response.text()}`);
    return response.json<{ id: number }>();
  };
  const get = (path: string) => call(path);
  /** The status of a request whose path does not exist, so that it needs nothing but the key. */
  const status = async () => (await call("/v1/nowhere")).status;
  return { id, secret, call, get, post, postOnce, create, status };
}

/**
 * For tests that change the table directly. Sets the clock to a millisecond before all earlier times, so that all cached pages
 * are from the future, and ignored.
 */
export function invalidatePageCache(): void {
  earliestMs = Math.min(earliestMs, Date.now()) - 1;
  vi.setSystemTime(earliestMs);
}
let earliestMs = Number.POSITIVE_INFINITY;

/** The number of pets in the table. */
export async function countPets(): Promise<number> {
  return (await REAL.PETS_DB.prepare("SELECT count(*) AS pets FROM pets").first<number>("pets")) ?? 0;
}

/** The path of the next link (RFC 8288). */
export function nextPath(response: Response): string | undefined {
  return response.headers.get("Link")?.match(`<${ORIGIN}([^>]*)>; rel="next"`)?.[1];
}

/** All pages of a list, along the next links, as texts. A walk that does not end, ends after 20 pages. */
export async function walk({ get }: Pick<Client, "get">, path: string): Promise<string[]> {
  const pages: string[] = [];
  for (let next: string | undefined = path; next !== undefined && pages.length < 20; ) {
    const response: Response = await get(next);
    pages.push(await response.text());
    next = nextPath(response);
  }
  return pages;
}
