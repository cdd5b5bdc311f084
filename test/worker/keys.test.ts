// API keys over HTTP: storage, authentication, and the lookup throttle. test/unit/lookup-throttle.test.ts has the throttle's rules,
// test/unit/secret.test.ts the format of keys, admin.test.ts what commands change, schema.test.ts the constraints of the tables,
// freshness.test.ts when a change is in force.

import { env } from "cloudflare:workers";
import { assert, describe, expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { KnownKeys } from "../../src/keys/isolate/known-keys.ts";
import { keyIdOf, newKeyId, newSecret } from "../../src/keys/secret.ts";
import { findRecord } from "../../src/keys/store.ts";
import { RUNTIME } from "../../src/lib/runtime.ts";
import { revokeKey, rotateKey } from "../../src/operators/admin.ts";
import { listKeys } from "../../src/operators/records.ts";
import {
  fetchWithoutKey,
  interceptCalls,
  newAddress,
  newClient,
  newKey,
  operator,
  pass,
  usageAt,
  watchObjects,
  watchReads,
} from "../support/worker/client.ts";
import { watchStatements } from "../support/worker/database-stub.ts";
import { hasSettled } from "../support/worker/has-settled.ts";
import { randomPartOf } from "../support/worker/log-lines.ts";

/** Sends a request with a key. Its path does not exist, so that it needs nothing but the key. */
function send(secret: string, address = newAddress()): Promise<Response> {
  const headers = { "CF-Connecting-IP": address, Authorization: `Bearer ${secret}` };
  return fetchWithoutKey("/v1/nowhere", { headers });
}

/** The statuses of requests that are sent one after the other. */
async function statusesOf(count: number, request: (index: number) => Promise<Response>): Promise<number[]> {
  const statuses: number[] = [];
  for (let index = 0; index < count; index += 1) statuses.push((await request(index)).status);
  return statuses;
}

/** A secret of a key that does not exist. */
const unknownSecret = () => newSecret(newKeyId());

/** Another isolate that knows no key. Returns a function that says what it makes of a secret, and counts a valid one. */
function newIsolate() {
  const keys = new KnownKeys({
    runtime: RUNTIME,
    objectOf: (id) => env.API_KEYS.getByName(id),
    findRecord: (id) => findRecord(env.KEYS_DB, id),
  });
  return async (secret: string) => {
    const credential = keys.credentialOf(secret);
    assert(credential);
    const buckets = () => [newAddress()];
    const request = { credential, arrivedMs: Date.now(), buckets, onObjectFailure: assert.fail };
    const { caller } = await keys.identifyAndCount(request);
    return caller.problem ?? "valid";
  };
}

it("a stored key is a SHA-256 and the last four characters, never the secret", async () => {
  const { id, secret } = await newKey();
  const row = await env.KEYS_DB.prepare("SELECT *, hex(hash) AS hash FROM keys WHERE id = ?1")
    .bind(id)
    .first();
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  const hash = new Uint8Array(digest).toHex().toUpperCase();
  expect(row).toMatchObject({ hash, last_four: secret.slice(-4) });
  expect(JSON.stringify(row)).not.toContain(randomPartOf(secret));
  expect(JSON.stringify(await listKeys(env.KEYS_DB, Date.now()))).not.toContain(randomPartOf(secret));
});

describe("authentication", () => {
  it.each(["bearer @", "BEARER @", "Bearer   @", "Bearer @ ", " Bearer @\t"])(
    "accepts the form %j",
    async (form) => {
      const headers = { Authorization: form.replace("@", (await newKey()).secret) };
      expect((await fetchWithoutKey("/v1/pets", { headers })).status).toBe(200);
    },
  );

  it("finds a key by one call of its object, which reads the primary once for all isolates", async () => {
    const { id, secret } = await newKey();
    const [reads, calls] = [watchReads(id), watchObjects(id)];
    expect((await send(secret)).status).toBe(404);
    expect([calls.length, reads]).toEqual([1, ["primary"]]);
    for (let isolates = 2; isolates <= 4; isolates += 1) {
      expect(await newIsolate()(secret)).toBe("valid");
      expect([calls.length, reads]).toEqual([isolates, ["primary"]]);
    }
  });

  it.each([
    ["the id of no key", async () => unknownSecret()],
    ["a wrong secret of a key", async () => newSecret((await newKey()).id)],
  ])(
    "remembers %s for 30 s, without another call or read, and also not in the background",
    async (_, newWrong) => {
      const wrong = await newWrong();
      const [reads, calls] = [watchReads(keyIdOf(wrong)), watchObjects(keyIdOf(wrong))];
      for (const [ms, asked] of [
        [0, 1],
        [5_000, 1],
        [15_000, 1],
        [9_999, 1],
        [1, 2],
      ] as const) {
        pass(ms);
        expect((await send(wrong)).status).toBe(401);
        expect([calls.length, reads.length]).toEqual([asked, asked]);
      }
    },
  );

  it("refuses a key whose row was deleted by hand within 30 s, and keeps none of its requests waiting", async () => {
    const { id, secret } = await newKey();
    expect((await send(secret)).status).toBe(404);
    await env.KEYS_DB.prepare("DELETE FROM keys WHERE id = ?1").bind(id).run();
    for (const ms of [10_000, 19_999]) {
      pass(ms);
      const response = send(secret);
      const answered = response.then(() => true);
      expect(await Promise.race([answered, scheduler.wait(1_000)]), `after ${ms} ms`).toBe(true);
    }
    pass(1);
    expect((await send(secret)).status).toBe(401);
  });

  it("takes nothing from a key for wrong secrets, also not if they come together with a right one", async () => {
    const { id, secret } = await newKey({ plan: "free" });
    const before = await usageAt(id);
    // The key is new to the isolate, then the isolate knows it.
    for (let round = 0; round < 2; round += 1) {
      const responses = await Promise.all([newSecret(id), secret, newSecret(id)].map((each) => send(each)));
      expect(responses.map(({ status }) => status)).toEqual([401, 404, 401]);
      const remaining = responses.map(({ headers }) => headers.get(HEADER.rateLimitRemaining));
      expect(remaining).toEqual(["59", `${59 - round}`, "59"]);
      // Until the isolate's requests are too rare for a lease, which would be charged.
      pass(9_000);
    }
    const { minute } = (await usageAt(id)).status.windows;
    expect(minute).toEqual({ ...before.status.windows.minute, used: 2 });
  });

  it("rejects a cached key from the millisecond of its expiry", async () => {
    const { secret } = await newKey({ expiresAtMs: Date.now() + 10_000 });
    pass(9_999);
    expect((await send(secret)).status).toBe(404);
    pass(1);
    expect((await send(secret)).status).toBe(401);
  });

  it.each([
    ["knows the key", 1_000, async (secret: string) => void (await send(secret))],
    ["does not know it", 1_000, async (secret: string) => void (await newIsolate()(secret))],
    // The object waits until it may read again.
    ["does not know it, also if its object has just read it", 0, (secret: string) => newIsolate()(secret)],
  ])("accepts the new secret of a rotated key at once, in an isolate that %s", async (_, pauseMs, use) => {
    const { id, secret } = await newKey();
    // From now on there is a record that has only the old secret.
    await use(secret);
    const rotated = await rotateKey(env.KEYS_DB, id, 0, operator());
    assert(rotated.ok);
    pass(pauseMs);
    const reads = watchReads(id);
    expect((await send(rotated.secret)).status).toBe(404);
    expect(reads).toEqual(["primary"]);
  });

  it("accepts the old secret of a rotated key to the millisecond of its grace", async () => {
    const { id, secret } = await newKey();
    expect((await send(secret)).status).toBe(404);
    const rotated = await rotateKey(env.KEYS_DB, id, 100_000, operator());
    assert(rotated.ok);
    // The object has just read the record, so it waits for a second before it reads it again.
    expect((await send(rotated.secret)).status).toBe(404);
    pass(99_999);
    expect((await send(secret)).status).toBe(404);
    pass(1);
    expect((await send(secret)).status).toBe(401);
    expect((await send(rotated.secret)).status).toBe(404);
  });
});

async function expiredSecret(): Promise<string> {
  const { secret } = await newKey({ expiresAtMs: Date.now() + 1 });
  pass(1);
  return secret;
}

async function replacedSecret(): Promise<string> {
  const { id, secret } = await newKey();
  await rotateKey(env.KEYS_DB, id, 0, operator());
  return secret;
}

async function revokedSecret({ isReplaced = false } = {}): Promise<string> {
  const { id, secret } = await newKey();
  if (isReplaced) await rotateKey(env.KEYS_DB, id, 0, operator());
  await revokeKey(env.KEYS_DB, id, operator());
  return secret;
}

const CHALLENGE = 'Bearer realm="petstore"';

describe("callers without a valid key", () => {
  /** Sends a request, and checks that it gets a 401 with this message and challenge. */
  async function expectUnauthorized(path: string, init: RequestInit, message: string, challenge = CHALLENGE) {
    const response = await fetchWithoutKey(path, init);
    expect(await response.json()).toEqual({ code: "unauthorized", message, status: 401 });
    expect(response.status).toBe(401);
    expect(response.headers.get("Content-Type")).toBe("application/json");
    expect(response.headers.get("WWW-Authenticate")).toBe(challenge);
  }

  it.each([
    ["no header", HEADER.requestId, ""],
    ["an empty header", "Authorization", ""],
    ["a scheme without a key", "Authorization", "Bearer"],
    ["another scheme", "Authorization", "Basic @"],
    ["a longer scheme", "Authorization", "xBearer @"],
    ["a scheme and a comma", "Authorization", "Bearer, @"],
    ["another header", "X-API-Key", "@"],
  ])("get a 401 that says how to send a key: %s", async (_, name, value) => {
    const headers = { [name]: value.replace("@", (await newKey()).secret) };
    await expectUnauthorized("/v1/pets", { headers }, MESSAGES.unauthorized.missing);
  });

  it.each([
    ["a key with an unknown id", "unknown", async () => unknownSecret()],
    ["a key with a wrong secret", "unknown", async () => newSecret((await newKey()).id)],
    ["a malformed key", "unknown", async () => "hunter2"],
    ["a truncated key", "unknown", async () => (await newKey()).secret.slice(0, -1)],
    ["a key with a suffix", "unknown", async () => `${(await newKey()).secret} x`],
    ["two keys", "unknown", async () => `${(await newKey()).secret}, Bearer ${(await newKey()).secret}`],
    ["a very long key", "unknown", async () => "x".repeat(8_000)],
    ["an expired key", "expired", expiredSecret],
    ["a replaced key", "replaced", replacedSecret],
    ["a revoked key", "revoked", revokedSecret],
    ["a revoked key with a replaced secret", "revoked", () => revokedSecret({ isReplaced: true })],
  ] as const)("get a 401 that says what is wrong: %s", async (_, problem, newInvalid) => {
    const headers = { Authorization: `Bearer ${await newInvalid()}` };
    const challenge = `${CHALLENGE}, error="invalid_token"`;
    await expectUnauthorized("/v1/pets", { headers }, MESSAGES.unauthorized[problem], challenge);
  });

  it("get a 401 if the key is in the query", async () => {
    const { secret } = await newKey();
    for (const parameter of ["api_key", "key", "access_token"]) {
      await expectUnauthorized(`/v1/pets?${parameter}=${secret}`, {}, MESSAGES.unauthorized.missing);
    }
  });

  it("get 60 responses per minute and IPv6 /64, then 429, without a query, a call or the quota of a key", async () => {
    const [statements, calls] = [watchReads(), watchObjects()];
    const statuses = await statusesOf(70, (index) => send("wrong", `2001:db8:aa:1::${index}`));
    expect(statuses).toEqual([...Array(60).fill(401), ...Array(10).fill(429)]);
    expect((await send("wrong", "2001:db8:aa:2::1")).headers.get(HEADER.rateLimitRemaining)).toBe("59");
    expect([statements, calls]).toEqual([[], []]);
    // The key is new to the isolate: its object must be asked although its address has used up its requests.
    const client = await newClient({ plan: "free" });
    const init = { headers: { "CF-Connecting-IP": "2001:db8:aa:1::1" } };
    const { status, headers } = await client.call("/v1/pets", init);
    expect([status, headers.get(HEADER.rateLimitRemaining)]).toEqual([200, "59"]);

    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
    expect((await send("wrong", "2001:db8:aa:1::1")).status).toBe(401);
  });
});

describe("the lookup throttle", () => {
  const database = (requestId: string) =>
    MESSAGES.service_unavailable.database({ retryAfterSeconds: 5, requestId });
  const unknownKeys = () => {
    const retry = { seconds: 40, atMs: Date.UTC(2026, 10, 20, 12, 35) };
    return MESSAGES.rate_limit_exceeded.unknownKeys(60, "minute", retry);
  };

  it.each([
    [429, "turn out to be unknown", unknownKeys],
    [503, "hang", database],
  ])(
    "answers %i to a new key if 60 from its address %s, but not to another address",
    async (status, fate, message) => {
      const [{ secret }, other] = [await newKey(), await newKey()];
      const address = newAddress();
      // No call reaches its deadline.
      vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
      let calls = 0;
      let areHeld = true;
      interceptCalls(async (run) => {
        calls += 1;
        const isGuess = calls <= 60;
        while (isGuess && areHeld) await scheduler.wait(1);
        return run();
      });
      const guesses = Array.from({ length: 60 }, () => send(unknownSecret(), address));
      while (calls < 60) await scheduler.wait(1);
      const there = send(secret, address);
      // It waits for a slot.
      expect(await hasSettled(there)).toBe(false);
      expect((await send(other.secret)).status).toBe(404);
      areHeld = fate === "hang";
      const refused = await there;
      expect(refused.status).toBe(status);
      const requestId = refused.headers.get(HEADER.requestId) ?? "";
      expect(await refused.json()).toMatchObject({ message: message(requestId) });
      areHeld = false;
      await Promise.all(guesses);
    },
  );

  it("lets a known key be looked up again after 60 unknown ones from its address, but not an unknown one", async () => {
    const [{ secret: known }, unknown] = [await newKey(), unknownSecret()];
    const address = newAddress();
    await send(known, address);
    await send(unknown, address);
    pass(30_000);
    await statusesOf(60, () => send(unknownSecret(), address));
    const [statements, calls] = [watchReads(keyIdOf(known)), watchObjects(keyIdOf(unknown))];
    expect([(await send(known, address)).status, (await send(unknown, address)).status]).toEqual([404, 429]);
    expect([statements, calls]).toEqual([["primary"], []]);
  });

  it("counts all networks of an IPv6 /48 together, and no other", async () => {
    const guess = (site: number) => send(unknownSecret(), `2001:db8:48:${site.toString(16)}::1`);
    const [statements, calls] = [watchReads(), watchObjects()];
    expect(await statusesOf(70, guess)).toEqual([...Array(60).fill(401), ...Array(10).fill(429)]);
    expect([statements.length, calls.length]).toEqual([60, 60]);

    const { secret } = await newKey();
    const headers = { "CF-Connecting-IP": "2001:db8:48:ffff::1", Authorization: `Bearer ${secret}` };
    const pages = watchStatements("PETS_DB");
    for (const path of ["/v1/nowhere", "/v1/pets", "/v1/usage"]) {
      const refused = await fetchWithoutKey(path, { headers });
      // A 401 would be wrong: nobody was asked about the key.
      expect(await refused.json(), path).toMatchObject({
        code: "rate_limit_exceeded",
        message: unknownKeys(),
      });
      expect(refused.headers.get(HEADER.rateLimitRemaining)).toBe("0");
    }
    expect(pages).toEqual([]);
    expect((await send(secret, "2001:db8:49::1")).status).toBe(404);
  });
});
