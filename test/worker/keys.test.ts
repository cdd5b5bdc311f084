// API keys over HTTP: storage, authentication, and the lookup throttle. test/unit/lookup-throttle.test.ts has the throttle's rules,
// test/unit/secret.test.ts the format of keys, admin.test.ts what commands change, schema.test.ts the constraints of the table.

import { env } from "cloudflare:workers";
import { assert, describe, expect, it, vi } from "vitest";
import { MESSAGES } from "../../src/http/messages.ts";
import { revokeKey, rotateKey } from "../../src/keys/admin.ts";
import { listKeys } from "../../src/keys/records.ts";
import { newSecret } from "../../src/keys/secret.ts";
import {
  fetchWithoutKey,
  newAddress,
  newClient,
  newKey,
  operator,
  pass,
  watchLimiter,
} from "../support/worker/client.ts";
import { interceptStatements, watchStatements } from "../support/worker/database-stub.ts";
import { hasSettled } from "../support/worker/has-settled.ts";

/** Sends a request with a key. The path of a valid key's request does not exist, so that nothing but the key is looked up. */
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

it("a stored key is a SHA-256 and the last four characters, never the secret", async () => {
  const { id, secret } = await newKey();
  const row = await env.DB.prepare("SELECT *, hex(hash) AS hash FROM keys WHERE id = ?1").bind(id).first();
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  const hash = new Uint8Array(digest).toHex().toUpperCase();
  expect(row).toMatchObject({ hash, last_four: secret.slice(-4) });
  expect(JSON.stringify(row)).not.toContain(secret.slice(4, 36));
  expect(JSON.stringify(await listKeys(env.DB, Date.now()))).not.toContain(secret.slice(4, 36));
});

describe("authentication", () => {
  it.each(["bearer @", "BEARER @", "Bearer   @", "Bearer @ ", " Bearer @\t"])(
    "accepts the form %j",
    async (form) => {
      const headers = { Authorization: form.replace("@", (await newKey()).secret) };
      expect((await fetchWithoutKey("/v1/pets", { headers })).status).toBe(200);
    },
  );

  it("looks up a key once, and an unknown one not in the background either", async () => {
    for (const [secret, status] of [
      [(await newKey()).secret, 404],
      [newSecret(), 401],
    ] as const) {
      const statements = watchStatements();
      expect(await statusesOf(5, () => send(secret))).toEqual(Array(5).fill(status));
      if (status === 401) pass(29_999);
      expect((await send(secret)).status).toBe(status);
      expect(statements).toEqual(["primary"]);
    }
  });

  it("rejects a cached key from the millisecond of its expiry", async () => {
    const { secret } = await newKey({ expiresAtMs: Date.now() + 10_000 });
    pass(9_999);
    expect((await send(secret)).status).toBe(404);
    pass(1);
    expect((await send(secret)).status).toBe(401);
  });

  it("accepts the new secret of a rotated key at once, and the old one to the millisecond of its grace", async () => {
    const { id, secret } = await newKey();
    expect((await send(secret)).status).toBe(404);
    const rotated = await rotateKey(env.DB, id, 100_000, operator());
    assert(rotated.ok);
    expect((await send(rotated.secret)).status).toBe(404);
    pass(99_999);
    expect((await send(secret)).status).toBe(404);
    pass(1);
    expect((await send(secret)).status).toBe(401);
  });
});

async function expiredSecret(): Promise<string> {
  const { secret } = await newKey({ expiresAtMs: Date.now() + 1 });
  pass(1);
  return secret;
}

async function replacedSecret(): Promise<string> {
  const { id, secret } = await newKey();
  await rotateKey(env.DB, id, 0, operator());
  return secret;
}

async function revokedSecret({ isReplaced = false } = {}): Promise<string> {
  const { id, secret } = await newKey();
  if (isReplaced) await rotateKey(env.DB, id, 0, operator());
  await revokeKey(env.DB, id, operator());
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
    ["no header", "X-Request-Id", ""],
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
    ["an unknown key", "unknown", async () => newSecret()],
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
    const statements = watchStatements();
    const calls = watchLimiter();
    const statuses = await statusesOf(70, (index) => send("wrong", `2001:db8:aa:1::${index}`));
    expect(statuses).toEqual([...Array(60).fill(401), ...Array(10).fill(429)]);
    expect((await send("wrong", "2001:db8:aa:2::1")).headers.get("X-RateLimit-Remaining")).toBe("59");
    expect([statements, calls]).toEqual([[], []]);
    // The key is new to the isolate: it must be looked up although its address has used up its requests.
    const client = await newClient({ plan: "free" });
    const init = { headers: { "CF-Connecting-IP": "2001:db8:aa:1::1" } };
    const { status, headers } = await client.call("/v1/pets", init);
    expect([status, headers.get("X-RateLimit-Remaining")]).toEqual([200, "59"]);

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
      const { secret } = await newKey();
      const address = newAddress();
      let statements = 0;
      let areHeld = true;
      interceptStatements(async (run) => {
        statements += 1;
        const isGuess = statements <= 60;
        while (isGuess && areHeld) await scheduler.wait(1);
        return run();
      });
      const guesses = Array.from({ length: 60 }, () => send(newSecret(), address));
      while (statements < 60) await scheduler.wait(1);
      const there = send(secret, address);
      // It waits for a slot, and then the second request for the lookup of the first.
      expect(await hasSettled(there)).toBe(false);
      const elsewhere = send(secret);
      expect(await hasSettled(elsewhere)).toBe(false);
      areHeld = fate === "hang";
      const refused = await there;
      expect([refused.status, (await elsewhere).status]).toEqual([status, 404]);
      const requestId = refused.headers.get("X-Request-Id") ?? "";
      expect(await refused.json()).toMatchObject({ message: message(requestId) });
      areHeld = false;
      await Promise.all(guesses);
    },
  );

  it("lets a known key be looked up again after 60 unknown ones from its address, but not an unknown one", async () => {
    const [{ secret: known }, unknown] = [await newKey(), newSecret()];
    const address = newAddress();
    await send(known, address);
    await send(unknown, address);
    pass(30_000);
    await statusesOf(60, () => send(newSecret(), address));
    const statements = watchStatements();
    expect([(await send(known, address)).status, (await send(unknown, address)).status]).toEqual([404, 429]);
    expect(statements).toEqual(["primary"]);
  });

  it("counts all networks of an IPv6 /48 together, and no other", async () => {
    const guess = (site: number) => send(newSecret(), `2001:db8:48:${site.toString(16)}::1`);
    const statements = watchStatements();
    expect(await statusesOf(70, guess)).toEqual([...Array(60).fill(401), ...Array(10).fill(429)]);
    expect(statements).toHaveLength(60);

    const { secret } = await newKey();
    // A 401 would be wrong: the key was not looked up.
    const refused = await send(secret, "2001:db8:48:ffff::1");
    expect(refused.headers.get("X-RateLimit-Remaining")).toBe("0");
    expect(await refused.json()).toMatchObject({ code: "rate_limit_exceeded", message: unknownKeys() });
    expect((await send(secret, "2001:db8:49::1")).status).toBe(404);
  });
});
