// API keys over HTTP: storage, authentication, and the lookup throttle. test/unit/known-keys.test.ts has what it costs to identify
// callers and what wrong secrets can do, lookup-throttle.test.ts the throttle's rules, secret.test.ts the format of keys; admin.test.ts what
// commands change, freshness.test.ts when a change is in force.

import { env } from "cloudflare:workers";
import { assert, expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import type { SecretProblem } from "../../src/keys/record.ts";
import { keyIdOf, newKeyId, newSecret } from "../../src/keys/secret.ts";
import { revokeKey, rotateKey } from "../../src/operators/admin.ts";
import { listKeys } from "../../src/operators/records.ts";
import { watchObjects, watchReads, watchStatements } from "../support/worker/bindings.ts";
import { fetchWithoutKey, newAddress, newClient, newKey, operator } from "../support/worker/client.ts";
import { randomPartOf } from "../support/worker/log-lines.ts";
import { pass } from "../support/worker/time.ts";

/** The status of a request with a key. Its path does not exist, so that it needs nothing but the key. */
async function send(secret: string, address = newAddress()): Promise<number> {
  const headers = { "CF-Connecting-IP": address, Authorization: `Bearer ${secret}` };
  return (await fetchWithoutKey("/v1/nowhere", { headers })).status;
}

/** The statuses of requests that are sent one after the other. */
async function statusesOf(count: number, request: (index: number) => Promise<number>): Promise<number[]> {
  const statuses: number[] = [];
  while (statuses.length < count) statuses.push(await request(statuses.length));
  return statuses;
}

const SIXTY_ONLY = [...Array(60).fill(401), ...Array(10).fill(429)];

/** A secret of a key that does not exist. */
const unknownSecret = () => newSecret(newKeyId());

async function rotate(id: string, graceMs: number): Promise<string> {
  const rotated = await rotateKey(env.KEYS_DB, id, graceMs, operator());
  assert(rotated.ok);
  return rotated.secret;
}

it("a stored key is a SHA-256 and the last four characters, never the secret", async () => {
  const { id, secret } = await newKey();
  const sql = "SELECT *, hex(hash) AS hash FROM keys WHERE id = ?1";
  const row = await env.KEYS_DB.prepare(sql).bind(id).first();
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  const hash = new Uint8Array(digest).toHex().toUpperCase();
  expect(row).toMatchObject({ hash, last_four: secret.slice(-4) });
  for (const shown of [row, await listKeys(env.KEYS_DB, Date.now())])
    expect(JSON.stringify(shown)).not.toContain(randomPartOf(secret));
});

it.each(["bearer @", "BEARER   @ ", " Bearer @\t"])("a key is accepted in the form %j", async (form) => {
  const headers = { Authorization: form.replace("@", (await newKey()).secret) };
  expect((await fetchWithoutKey("/v1/pets", { headers })).status).toBe(200);
});

it("an isolate remembers the id of no key for 30 s, without another call or read", async () => {
  const wrong = unknownSecret();
  const [reads, calls] = [watchReads(keyIdOf(wrong)), watchObjects(keyIdOf(wrong))];
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
    expect(await Promise.race([send(secret), scheduler.wait(1_000)]), `after ${ms} ms`).toBeDefined();
  }
  pass(1);
  expect(await send(secret)).toBe(401);
});

it("a key is accepted to the millisecond of its expiry", async () => {
  const { secret } = await newKey({ expiresAtMs: Date.now() + 10_000 });
  pass(9_999);
  expect(await send(secret)).toBe(404);
  pass(1);
  expect(await send(secret)).toBe(401);
});

it("the new secret of a rotated key is accepted at once, and the old one to the millisecond of its grace", async () => {
  const { id, secret } = await newKey();
  // From now on there is a record that has only the old secret. It is read again once a second.
  expect(await send(secret)).toBe(404);
  const rotated = await rotate(id, 100_000);
  pass(1_000);
  const reads = watchReads(id);
  expect(await send(rotated)).toBe(404);
  expect(reads).toEqual(["primary"]);
  pass(98_999);
  expect(await send(secret)).toBe(404);
  pass(1);
  expect([await send(secret), await send(rotated)]).toEqual([401, 404]);
});

/** A secret that was valid. */
async function formerSecret({ isExpired = false, isReplaced = false, isRevoked = false }): Promise<string> {
  const { id, secret } = await newKey({ expiresAtMs: isExpired ? Date.now() + 1 : null });
  if (isExpired) pass(1);
  if (isReplaced) await rotate(id, 0);
  if (isRevoked) await revokeKey(env.KEYS_DB, id, operator());
  return secret;
}

const CHALLENGE = 'Bearer realm="petstore"';

/** Sends a request, and checks that it gets a 401 with this message and challenge. */
async function expectUnauthorized(path: string, init: RequestInit, message: string, challenge = CHALLENGE) {
  const response = await fetchWithoutKey(path, init);
  expect(await response.json()).toEqual({ code: "unauthorized", message, status: 401 });
  expect(response.status).toBe(401);
  expect(response.headers.get("WWW-Authenticate")).toBe(challenge);
}

it.each([
  ["no header", HEADER.requestId, ""],
  ["a scheme without a key", "Authorization", "Bearer"],
  ["another scheme", "Authorization", "Basic @"],
  ["a longer scheme", "Authorization", "xBearer @"],
  ["a scheme and a comma", "Authorization", "Bearer, @"],
  ["another header", "X-API-Key", "@"],
])("callers without a valid key get a 401 that says how to send a key: %s", async (_, name, value) => {
  const headers = { [name]: value.replace("@", (await newKey()).secret) };
  await expectUnauthorized("/v1/pets", { headers }, MESSAGES.unauthorized.missing);
});

it.each<[string, SecretProblem, newInvalid: () => Promise<string>]>([
  ["a key with an unknown id", "unknown", async () => unknownSecret()],
  ["a key with a wrong secret", "unknown", async () => newSecret((await newKey()).id)],
  ["a malformed key", "unknown", async () => "hunter2"],
  ["a key with a suffix", "unknown", async () => `${(await newKey()).secret} x`],
  ["two keys", "unknown", async () => `${(await newKey()).secret}, Bearer ${(await newKey()).secret}`],
  ["a very long key", "unknown", async () => "x".repeat(8_000)],
  ["an expired key", "expired", async () => formerSecret({ isExpired: true })],
  ["a replaced key", "replaced", async () => formerSecret({ isReplaced: true })],
  ["a revoked key", "revoked", async () => formerSecret({ isRevoked: true })],
  ["a revoked key, expired", "revoked", async () => formerSecret({ isExpired: true, isRevoked: true })],
  ["a revoked key, replaced", "revoked", async () => formerSecret({ isReplaced: true, isRevoked: true })],
])("callers without a valid key get a 401 that says what is wrong: %s", async (_, problem, newInvalid) => {
  const headers = { Authorization: `Bearer ${await newInvalid()}` };
  const challenge = `${CHALLENGE}, error="invalid_token"`;
  await expectUnauthorized("/v1/pets", { headers }, MESSAGES.unauthorized[problem], challenge);
});

it("callers without a valid key get a 401 if the key is in the query", async () => {
  const { secret } = await newKey();
  for (const parameter of ["api_key", "key", "access_token"])
    await expectUnauthorized(`/v1/pets?${parameter}=${secret}`, {}, MESSAGES.unauthorized.missing);
});

it("callers without a valid key get 60 responses per minute and IPv6 /64, then 429, without a query, a call or the quota of a key", async () => {
  const [statements, calls] = [watchReads(), watchObjects()];
  expect(await statusesOf(70, (index) => send("wrong", `2001:db8:aa:1::${index}`))).toEqual(SIXTY_ONLY);
  expect(await send("wrong", "2001:db8:aa:2::1")).toBe(401);
  expect([statements, calls]).toEqual([[], []]);
  // The key is new to the isolate: its object must be asked although its address has used up its requests.
  const client = await newClient({ plan: "free" });
  const init = { headers: { "CF-Connecting-IP": "2001:db8:aa:1::1" } };
  const { status, headers } = await client.call("/v1/pets", init);
  expect([status, headers.get(HEADER.rateLimitRemaining)]).toEqual([200, "59"]);

  vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
  expect(await send("wrong", "2001:db8:aa:1::1")).toBe(401);
});

it("the lookup throttle lets a known key be looked up again after 60 unknown ones from its address, but not an unknown one", async () => {
  const [{ secret: known }, unknown] = [await newKey(), unknownSecret()];
  const address = newAddress();
  await send(known, address);
  await send(unknown, address);
  pass(30_000);
  await statusesOf(60, () => send(unknownSecret(), address));
  const [statements, calls] = [watchReads(keyIdOf(known)), watchObjects(keyIdOf(unknown))];
  expect([await send(known, address), await send(unknown, address)]).toEqual([404, 429]);
  expect([statements, calls]).toEqual([["primary"], []]);
});

it("the lookup throttle counts all networks of an IPv6 /48 together, and no other", async () => {
  const guess = (site: number) => send(unknownSecret(), `2001:db8:48:${site.toString(16)}::1`);
  const [statements, calls] = [watchReads(), watchObjects()];
  expect(await statusesOf(70, guess)).toEqual(SIXTY_ONLY);
  expect([statements.length, calls.length]).toEqual([60, 60]);

  const { secret } = await newKey();
  const headers = { "CF-Connecting-IP": "2001:db8:48:ffff::1", Authorization: `Bearer ${secret}` };
  const pages = watchStatements("PETS_DB");
  const retry = { seconds: 40, atMs: Date.UTC(2026, 10, 20, 12, 35) };
  const message = MESSAGES.rate_limit_exceeded.unknownKeys(60, "minute", retry);
  for (const path of ["/v1/nowhere", "/v1/pets", "/v1/usage"]) {
    const refused = await fetchWithoutKey(path, { headers });
    // A 401 would be wrong: nobody was asked about the key.
    expect(await refused.json(), path).toMatchObject({ code: "rate_limit_exceeded", message });
    expect(refused.headers.get(HEADER.rateLimitRemaining)).toBe("0");
  }
  expect(pages).toEqual([]);
  expect(await send(secret, "2001:db8:49::1")).toBe(404);
});
