// API keys over HTTP: storage, authentication, and the lookup throttle. test/unit/known-keys.test.ts has what it costs to identify
// callers and what wrong secrets can do, lookup-throttle.test.ts the throttle's rules, secret.test.ts the format of keys; admin.test.ts what
// commands change, freshness.test.ts when a change is in force.

import { env } from "cloudflare:workers";
import { assert, expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import type { SecretProblem } from "../../src/keys/key.ts";
import { keyIdOf, newKeyId, newSecret } from "../../src/keys/secret.ts";
import { revokeKey, rotateKey, suspendKey } from "../../src/operators/admin.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { interceptCalls, watchObjects, watchReads, watchStatements } from "../support/worker/bindings.ts";
import {
  fetchWithoutKey,
  LAST_PAGE,
  newAddress,
  newClient,
  newKey,
  operator,
} from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { beginMinute, pass } from "../support/worker/time.ts";

const headersOf = (secret: string, address = newAddress()) => ({
  headers: { "CF-Connecting-IP": address, Authorization: `Bearer ${secret}` },
});

/** The status of a request with a key. Its path does not exist, so that it needs nothing but the key. */
const send = async (secret: string, address?: string) =>
  (await fetchWithoutKey("/v1/nowhere", headersOf(secret, address))).status;

/** A secret of a key that does not exist. */
const unknownSecret = () => newSecret(newKeyId());

it("a stored key is a SHA-256 and the last four characters", async () => {
  const { id, secret } = await newKey();
  const stored = env.KEYS_DB.prepare("SELECT *, lower(hex(hash)) AS hash FROM keys WHERE id = ?1");
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  const hash = new Uint8Array(digest).toHex();
  const row = await stored.bind(id).first();
  expect(row).toMatchObject({ hash, last_four: secret.slice(-4) });
  expect(JSON.stringify(row)).not.toContain(secret.slice(16, 48));
});

it("an isolate remembers the id of no key for 30 s, without another call or read", async () => {
  const id = newKeyId();
  const wrong = newSecret(id);
  const [reads, calls] = [watchReads(id), watchObjects(id)];
  for (const [ms, asked] of [
    [0, 1],
    [29_999, 1],
    [1, 2],
  ] as const) {
    pass(ms);
    expect(await send(wrong)).toBe(401);
    expect([calls.length, reads.length]).toEqual([asked, asked]);
  }
});

it("a key whose row was deleted by hand is refused within 30 s, and none of its requests is kept waiting", async () => {
  const { id, secret } = await newKey();
  expect(await send(secret)).toBe(404);
  await env.KEYS_DB.prepare("DELETE FROM keys WHERE id = ?1").bind(id).run();
  for (const ms of [10_000, 19_999]) {
    pass(ms);
    const wait = vi.spyOn(scheduler, "wait");
    await send(secret);
    // A request that waits looks for its decision again and again; a report of what was decided comes after a second.
    expect(
      wait.mock.calls.filter(([waitMs]) => waitMs < 1_000),
      `after ${ms} ms`,
    ).toEqual([]);
  }
  pass(1);
  expect(await send(secret)).toBe(401);
});

type End = "expiry" | "rotation" | "suspension" | "revocation";

/**
 * A secret that has just ended. Unless its key was revoked or suspended, it was valid a millisecond ago, as is the one that replaced
 * it.
 */
async function formerSecret(...ends: End[]): Promise<string> {
  const { id, secret } = await newKey({ expiresAtMs: ends.includes("expiry") ? Date.now() + 10_000 : null });
  const valid = [secret];
  if (ends.includes("rotation")) {
    const rotated = await rotateKey(env.KEYS_DB, id, 10_000, operator());
    assert(rotated.ok);
    valid.push(rotated.secret);
  }
  pass(9_999);
  if (ends.includes("suspension")) await suspendKey(env.KEYS_DB, id, "a test", false, operator());
  if (ends.includes("revocation")) await revokeKey(env.KEYS_DB, id, operator());
  if (!ends.includes("suspension") && !ends.includes("revocation"))
    for (const each of valid) expect(await send(each)).toBe(404);
  pass(1);
  return secret;
}

const bearer = (secret: string) => ({ Authorization: `Bearer ${secret}` });

type Headers = HeadersInit | Promise<HeadersInit>;

it.each<[sent: string, problem: "missing" | SecretProblem, headers: (valid: string) => Headers]>([
  ["no key", "missing", () => ({})],
  ["a scheme without a key", "missing", () => bearer("")],
  ["another scheme", "missing", (valid) => ({ Authorization: `Basic ${valid}` })],
  ["a longer scheme", "missing", (valid) => ({ Authorization: `xBearer ${valid}` })],
  ["another header", "missing", (valid) => ({ "X-API-Key": valid })],
  ["a key and more", "unknown", (valid) => bearer(`${valid} x`)],
  ["two keys", "unknown", (valid) => bearer(`${valid}, Bearer ${valid}`)],
  ["a malformed key", "unknown", () => bearer("hunter2")],
  ["a key with an unknown id", "unknown", () => bearer(unknownSecret())],
  ["a key with a wrong secret", "unknown", (valid) => bearer(newSecret(`${keyIdOf(valid)}`))],
  ["an expired key", "expired", async () => bearer(await formerSecret("expiry"))],
  ["a replaced key", "replaced", async () => bearer(await formerSecret("rotation"))],
  ["a revoked key", "revoked", async () => bearer(await formerSecret("revocation"))],
  ["a suspended key, expired", "suspended", async () => bearer(await formerSecret("expiry", "suspension"))],
  ["a suspended key", "suspended", async () => bearer(await formerSecret("suspension"))],
  ["a suspended key, revoked", "revoked", async () => bearer(await formerSecret("suspension", "revocation"))],
])(
  "callers without a valid key get a 401 that says why, also if the key is in the query: %s",
  async (_, problem, headers) => {
    const { secret: valid } = await newKey();
    const path = `/v1/pets?api_key=${valid}&key=${valid}&access_token=${valid}`;
    const response = await fetchWithoutKey(path, { headers: await headers(valid) });
    const message = MESSAGES.unauthorized[problem];
    expect(await response.json()).toEqual({ code: "unauthorized", message, status: 401 });
    const challenge = `Bearer realm="petstore"${problem === "missing" ? "" : ', error="invalid_token"'}`;
    expect([response.status, response.headers.get("WWW-Authenticate")]).toEqual([401, challenge]);
  },
);

it.each([
  ["of-later", null, "is unknown to this version"],
  // The limits of an unknown plan are not used: they may mean something else there.
  ["toString", '{"minute":5,"day":5}', "is unknown to this version"],
  // Written by hand.
  ["enterprise", '{"minute":0,"day":5}', "needs limits of its own"],
  ["enterprise", '{"minute":5,"day":"5"}', "needs limits of its own"],
  ["enterprise", "[]", "needs limits of its own"],
])(
  "a key on the plan %s with the limits %s, after a rollback, gets a 503, and the log says why",
  async (plan, limits, why) => {
    const { id, get } = await newClient();
    const sql = "UPDATE keys SET plan = ?2, limits = ?3 WHERE id = ?1";
    await env.KEYS_DB.prepare(sql).bind(id, plan, limits).run();
    expect((await get("/v1/pets")).status).toBe(503);
    const cause = expect.stringContaining(`the key ${id} has no limits: its plan, ${plan}, ${why}`);
    const failures = [{ event: "database_unavailable", cause }];
    const lines = takeLogLines();
    expect(lines).toContainEqual({ event: "key_not_read", keyId: id, cause });
    expect(lines.at(-1)).toMatchObject({ event: "request", failures });
    // The same without the key's object.
    interceptCalls(id, () => Promise.reject(new Error("a test")));
    expect((await get("/v1/pets")).status).toBe(503);
    expect(takeLogLines().at(-1)).toMatchObject({
      failures: [{ event: "limiter_unavailable" }, ...failures],
    });
  },
);

it("callers without a valid key get 60 responses per minute and IPv6 /64, then 429, without a query, a call or the quota of a key", async () => {
  const { id, secret, call } = await newClient({ plan: "free" });
  const malformed = `${secret.slice(0, -1)}${secret.endsWith("0") ? 1 : 0}`;
  const [reads, calls] = [watchReads(id), watchObjects(id)];
  const statuses: number[] = [];
  for (let index = 0; index < 70; index += 1) statuses.push(await send(malformed, `2001:db8:aa:1::${index}`));
  expect(statuses).toEqual([...Array(60).fill(401), ...Array(10).fill(429)]);
  expect(await send(malformed, "2001:db8:aa:2::1")).toBe(401);
  expect([reads, calls]).toEqual([[], []]);
  // The key is new to the isolate: its object must be asked although its address has used up its requests.
  const init = { headers: { "CF-Connecting-IP": "2001:db8:aa:1::1" } };
  const { status, headers } = await call("/v1/pets", init);
  expect([status, headers.get(HEADER.rateLimitRemaining)]).toEqual([200, "59"]);

  vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
  expect(await send(malformed, "2001:db8:aa:1::1")).toBe(401);
});

it("the lookup throttle: after 60 unknown keys from networks of an IPv6 /48, a new key gets a 429 there, and a known one is looked up again", async () => {
  const addressIn = (network: number) => `2001:db8:48:${network.toString(16)}::1`;
  const [{ id, secret: known }, { secret: fresh }] = [await newKey(), await newKey()];
  await send(known, addressIn(0));
  pass(30_000);
  for (let guess = 1; guess <= 60; guess += 1)
    expect(await send(unknownSecret(), addressIn(guess))).toBe(401);
  expect(await send(unknownSecret(), addressIn(61))).toBe(429);
  const [reads, pages] = [watchReads(id), watchStatements("PETS_DB")];
  const retry = { seconds: 10, atMs: Date.UTC(2026, 10, 20, 12, 35) };
  const message = MESSAGES.rate_limit_exceeded.unknownKeys(60, "minute", retry);
  for (const path of ["/v1/nowhere", "/v1/pets", "/v1/usage"]) {
    const refused = await fetchWithoutKey(path, headersOf(fresh, addressIn(62)));
    // A 401 would be wrong: nobody was asked about the key.
    expect(await refused.json(), path).toMatchObject({ code: "rate_limit_exceeded", message });
    expect(refused.headers.get(HEADER.rateLimitRemaining)).toBe("0");
  }
  expect(pages).toEqual([]);
  expect([await send(known, addressIn(63)), reads]).toEqual([404, ["primary"]]);
  expect(await send(fresh, "2001:db8:49::1")).toBe(404);
});

it("made-up keys from a hundred addresses cost no read of pets at the primary, sixty at the nearest instance, and evict no page", async () => {
  const { create, get } = await newClient();
  await create();
  // A page that no other test reads.
  const list = `/v1/pets?limit=1&cursor=${encodeCursor(-2_000n)}`;
  beginMinute();
  const [reads, pages] = [watchStatements("KEYS_DB"), watchStatements("PETS_DB")];
  const flood = Array.from({ length: 100 }, () => fetchWithoutKey(list, headersOf(unknownSecret())));
  expect((await Promise.all(flood)).map(({ status }) => status)).toEqual(Array(100).fill(401));
  expect(pages).toEqual(Array(60).fill("nearest"));
  expect(reads.length).toBeGreaterThanOrEqual(100);
  // Otherwise whoever has no key could fill the cache.
  expect([(await get(list)).status, pages.length]).toEqual([200, 61]);
  // The isolate is flooded, so a new key's page is read after the key was judged.
  const { get: getAsNew } = await newClient();
  pages.length = 0;
  expect([(await getAsNew(LAST_PAGE)).status, pages]).toEqual([200, ["primary"]]);
});
