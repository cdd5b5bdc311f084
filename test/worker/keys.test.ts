// API keys over HTTP: storage, authentication, and the lookup throttle. Their format is in test/unit/secret.test.ts, what commands
// change in admin.test.ts.

import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
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
import type { Place } from "../support/worker/stub-bindings.ts";

/** Sends a request with a key. The path of a valid key's request does not exist, so that nothing but the key is looked up. */
function send(secret: string, address = newAddress(), path = "/v1/nowhere"): Promise<Response> {
  const headers = { "CF-Connecting-IP": address, Authorization: `Bearer ${secret}` };
  return fetchWithoutKey(path, { headers });
}

/** The statuses of requests that are sent one after the other. */
async function statusesOf(count: number, request: (index: number) => Promise<Response>): Promise<number[]> {
  const statuses: number[] = [];
  for (let index = 0; index < count; index += 1) statuses.push((await request(index)).status);
  return statuses;
}

/** The statuses of requests that are sent at once. */
async function statusesAtOnce(requests: Promise<Response>[]): Promise<number[]> {
  return (await Promise.all(requests)).map(({ status }) => status);
}

/** Holds all statements until `count` requests have arrived. Returns the place of each statement. */
function holdStatementsUntil(count: number): Place[] {
  const arrivals = vi.spyOn(crypto, "randomUUID");
  const places: Place[] = [];
  interceptStatements(async (run, place) => {
    places.push(place);
    while (arrivals.mock.calls.length < count) await scheduler.wait(0);
    // The last request looks up its key one turn later.
    await scheduler.wait(0);
    return run();
  });
  return places;
}

/**
 * Sends a key that is new to the isolate while 60 lookups of unknown keys from its address are under way, so that it waits for
 * a slot; and from another address, so that it waits for the same lookup. Fakes timers. `release` ends the 60 lookups.
 */
async function newKeyDuringGuesses() {
  const { secret } = await newKey();
  const address = newAddress();
  const arrivals = vi.spyOn(crypto, "randomUUID");
  let statements = 0;
  let isHeld = true;
  interceptStatements(async (run) => {
    statements += 1;
    const isGuess = statements <= 60;
    while (isHeld && isGuess) await scheduler.wait(1);
    return run();
  });
  const untilArrived = async (count: number) => {
    while (arrivals.mock.calls.length < count) await scheduler.wait(1);
  };
  // No deadline of a statement ends.
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
  const guesses = Array.from({ length: 60 }, () => send(newSecret(), address));
  while (statements < 60) await scheduler.wait(1);
  const there = send(secret, address);
  await untilArrived(61);
  const elsewhere = send(secret);
  await untilArrived(62);
  const release = async () => {
    isHeld = false;
    await Promise.all(guesses);
  };
  return { there, elsewhere, release, sendAgain: () => send(secret, address), untilArrived };
}

/** Runs `call` without a database, so that a revalidation in the background can't decide the result. */
async function withoutDatabase<Result>(call: () => Promise<Result>): Promise<Result> {
  interceptStatements(() => Promise.reject(new Error("out of order")));
  const result = await call();
  // Waits for the revalidation to fail.
  for (let turn = 0; turn < 5; turn += 1) await scheduler.wait(1);
  vi.restoreAllMocks();
  return result;
}

describe("a stored key", () => {
  it("is a SHA-256 and the last four characters, never the secret", async () => {
    const { id, secret } = await newKey();
    const row = await env.DB.prepare("SELECT *, hex(hash) AS hash FROM keys WHERE id = ?1").bind(id).first();
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
    const hash = new Uint8Array(digest).toHex().toUpperCase();
    expect(row).toMatchObject({ hash, last_four: secret.slice(-4) });
    expect(JSON.stringify(row)).not.toContain(secret.slice(4, 36));
    expect(JSON.stringify(await listKeys(env.DB, Date.now()))).not.toContain(secret.slice(4, 36));
  });

  it.each([
    ["a plan that does not exist", "'n', 'gold', NULL, NULL, randomblob(32), 'abcd', 1, NULL"],
    ["enterprise without limits", "'n', 'enterprise', NULL, NULL, randomblob(32), 'abcd', 1, NULL"],
    ["enterprise without a limit per day", "'n', 'enterprise', 5, NULL, randomblob(32), 'abcd', 1, NULL"],
    ["enterprise without a limit per minute", "'n', 'enterprise', NULL, 5, randomblob(32), 'abcd', 1, NULL"],
    ["a limit per minute on another plan", "'n', 'free', 5, NULL, randomblob(32), 'abcd', 1, NULL"],
    ["a limit per day on another plan", "'n', 'free', NULL, 5, randomblob(32), 'abcd', 1, NULL"],
    ["a limit of 0", "'n', 'enterprise', 0, 5, randomblob(32), 'abcd', 1, NULL"],
    ["a limit above 10^9", "'n', 'enterprise', 5, 1000000001, randomblob(32), 'abcd', 1, NULL"],
    ["a hash of 31 bytes", "'n', 'free', NULL, NULL, randomblob(31), 'abcd', 1, NULL"],
    ["a hash that is text", `'n', 'free', NULL, NULL, '${"a".repeat(32)}', 'abcd', 1, NULL`],
    ["an expiry before its creation", "'n', 'free', NULL, NULL, randomblob(32), 'abcd', 5, 5"],
    ["no name", "'', 'free', NULL, NULL, randomblob(32), 'abcd', 1, NULL"],
  ])("can't have %s", async (_, values) => {
    const columns = "id, name, plan, per_minute, per_day, hash, last_four, created_at_ms, expires_at_ms";
    const insert = env.DB.prepare(`INSERT INTO keys (${columns}) VALUES (hex(randomblob(8)), ${values})`);
    await expect(insert.run()).rejects.toThrow(/constraint|datatype/i);
  });

  it("can't have the hash of another key", async () => {
    const { id } = await newKey();
    const columns = "name, plan, per_minute, per_day, hash, last_four, created_at_ms, expires_at_ms";
    const copy = env.DB.prepare(
      `INSERT INTO keys (id, ${columns}) SELECT hex(randomblob(8)), ${columns} FROM keys WHERE id = ?1`,
    );
    await expect(copy.bind(id).run()).rejects.toThrow("UNIQUE constraint failed: keys.hash");
  });
});

describe("authentication", () => {
  it.each(["bearer @", "BEARER @", "Bearer   @", "Bearer @ ", " Bearer @\t"])(
    "accepts the form %j",
    async (form) => {
      const headers = { Authorization: form.replace("@", (await newKey()).secret) };
      expect((await fetchWithoutKey("/v1/pets", { headers })).status).toBe(200);
    },
  );

  it("caches a lookup for 30 seconds, to the millisecond", async () => {
    const { id, secret } = await newKey();
    expect((await send(secret)).status).toBe(404);
    await env.DB.prepare("DELETE FROM keys WHERE id = ?1").bind(id).run();
    pass(29_999);
    expect((await withoutDatabase(() => send(secret))).status).toBe(404);
    pass(1);
    expect((await send(secret)).status).toBe(401);
  });

  it("runs one query for repeated requests with a key, known or unknown", async () => {
    const address = newAddress();
    for (const [secret, status] of [
      [(await newKey()).secret, 404],
      [newSecret(), 401],
    ] as const) {
      const statements = watchStatements();
      expect(await statusesOf(5, () => send(secret, address))).toEqual(Array(5).fill(status));
      expect(statements).toEqual(["primary"]);
    }
  });

  it("applies a changed plan after 30 seconds, and keeps the counts", async () => {
    const client = await newClient({ plan: "free" });
    expect((await client.get("/v1/pets")).headers.get("X-RateLimit-Remaining")).toBe("59");
    await env.DB.prepare("UPDATE keys SET plan = 'pro' WHERE id = ?1").bind(client.id).run();
    pass(30_000);
    const { headers } = await client.get("/v1/pets");
    expect(headers.get("RateLimit")).toMatch(/^"minute";r=298;t=\d+, "day";r=9998;/);
  });

  it("rejects a cached key from the millisecond of its expiry", async () => {
    const { secret } = await newKey({ expiresAtMs: Date.now() + 10_000 });
    pass(9_999);
    expect((await send(secret)).status).toBe(404);
    pass(1);
    expect((await send(secret)).status).toBe(401);
  });

  it("rejects a revoked key again after each lookup, even if it was never counted", async () => {
    const secret = await revokedSecret();
    for (const pauseMs of [0, 20_000, 30_000, 30_000]) {
      pass(pauseMs);
      expect((await send(secret)).status).toBe(401);
    }
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

  it("get a 401 also with an unknown path, a wrong method or an invalid body", async () => {
    const bad = { method: "POST", body: "{", headers: { "Content-Type": "text/plain" } };
    await expectUnauthorized("/v1/nowhere", {}, MESSAGES.unauthorized.missing);
    await expectUnauthorized("/v1/pets", { method: "DELETE" }, MESSAGES.unauthorized.missing);
    await expectUnauthorized("/v1/pets", bad, MESSAGES.unauthorized.missing);
  });

  it("are not looked up again while the result is cached, nor in the background", async () => {
    const dead = newSecret();
    expect((await send(dead)).status).toBe(401);
    pass(29_999);
    const statements = watchStatements();
    expect((await send(dead)).status).toBe(401);
    expect(statements).toEqual([]);
  });

  it("need a free lookup again when the cached result of their key has expired", async () => {
    const dead = newSecret();
    const address = newAddress();
    await send(dead, address);
    pass(30_000);
    await statusesOf(60, () => send(newSecret(), address));
    const statements = watchStatements();
    await send(dead, address);
    expect(statements).toEqual([]);
  });

  it("get 60 responses per minute and address, then 429, without a query, a call or the quota of a key", async () => {
    const statements = watchStatements();
    const calls = watchLimiter();
    const address = newAddress();
    const statuses = await statusesOf(70, () => send("wrong", address));
    expect(statuses).toEqual([...Array(60).fill(401), ...Array(10).fill(429)]);
    expect([statements, calls]).toEqual([[], []]);
    // The key is new to the isolate: it must be looked up although its address has used up its requests.
    const client = await newClient({ plan: "free" });
    const { status, headers } = await client.call("/v1/pets", { headers: { "CF-Connecting-IP": address } });
    expect([status, headers.get("X-RateLimit-Remaining")]).toEqual([200, "59"]);

    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
    expect((await send("wrong", address)).status).toBe(401);
  });

  it("are counted per IPv6 /64", async () => {
    const left = async (address: string) =>
      (await send("wrong", address)).headers.get("X-RateLimit-Remaining");
    expect(await left("2001:db8:aa:1::1")).toBe("59");
    expect(await left("2001:db8:aa:1:ffff::2")).toBe("58");
    expect(await left("2001:db8:aa:2::1")).toBe("59");
  });
});

describe("the lookup throttle", () => {
  it("allows 60 of 200 unknown keys at once", async () => {
    const address = newAddress();
    const statements = holdStatementsUntil(200);
    const statuses = await statusesAtOnce(Array.from({ length: 200 }, () => send(newSecret(), address)));
    expect(statuses.toSorted()).toEqual([...Array(60).fill(401), ...Array(140).fill(429)]);
    expect(statements).toHaveLength(60);
  });

  it("allows 100 valid keys at once from one address, all new to the isolate", async () => {
    const keys = await Promise.all(Array.from({ length: 100 }, () => newKey()));
    const address = newAddress();
    const statements = holdStatementsUntil(100);
    const statuses = await statusesAtOnce(keys.map(({ secret }) => send(secret, address)));
    expect(statuses).toEqual(Array(100).fill(404));
    expect(statements).toHaveLength(100);
  });

  it("refuses a new key after 60 unknown ones from its address, but not from another address", async () => {
    const { there, elsewhere, release } = await newKeyDuringGuesses();
    await release();
    expect([(await there).status, (await elsewhere).status]).toEqual([429, 404]);
  });

  it("answers 503 while 60 lookups from an address hang, but not to another address", async () => {
    const { there, elsewhere, release } = await newKeyDuringGuesses();
    vi.advanceTimersByTime(2_000);
    expect([(await there).status, (await elsewhere).status]).toEqual([503, 404]);
    const requestId = (await there).headers.get("X-Request-Id") ?? "";
    const message = MESSAGES.service_unavailable.database({ retryAfterSeconds: 5, requestId });
    expect(await (await there).json()).toMatchObject({ code: "service_unavailable", message });
    await release();
  });

  it("does not refuse a request for the unknown keys of the minute before its own", async () => {
    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 34, 59, 900));
    const { there, release, sendAgain, untilArrived } = await newKeyDuringGuesses();
    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35, 0, 100));
    const later = sendAgain();
    await untilArrived(63);
    await release();
    expect([(await there).status, (await later).status]).toEqual([429, 404]);
  });

  it("allows a known key to be revalidated after 60 unknown ones from its address", async () => {
    const { secret } = await newKey();
    const address = newAddress();
    expect((await send(secret, address)).status).toBe(404);
    pass(30_000);
    await statusesOf(60, () => send(newSecret(), address));
    expect((await send(secret, address)).status).toBe(404);
  });

  it("does not count revoked keys", async () => {
    const secret = await revokedSecret();
    const address = newAddress();
    // Each request looks the key up.
    await statusesOf(70, () => {
      pass(30_000);
      return send(secret, address);
    });
    expect((await send((await newKey()).secret, address)).status).toBe(404);
  });

  it("counts each Worker's zone separately", async () => {
    const call = (secret: string, zone: string) => {
      const headers = { "CF-Connecting-IP": "2a06:98c0:3600::103", "CF-Worker": zone };
      return fetchWithoutKey("/v1/nowhere", { headers: { ...headers, Authorization: `Bearer ${secret}` } });
    };
    await statusesOf(60, () => call(newSecret(), "guesser.example"));
    const { secret } = await newKey();
    expect((await call(secret, "guesser.example")).status).toBe(429);
    expect((await call(secret, "customer.example")).status).toBe(404);
  });

  it("counts all networks of an IPv6 /48 together, and no other", async () => {
    const known = await newKey();
    await send(known.secret);
    const statements = watchStatements();
    const guess = (site: number) => send(newSecret(), `2001:db8:48:${site.toString(16)}::1`);
    expect(await statusesOf(70, guess)).toEqual([...Array(60).fill(401), ...Array(10).fill(429)]);
    expect(statements).toHaveLength(60);

    const { secret } = await newKey();
    // A 401 would be wrong: the key was not looked up.
    const refused = await send(secret, "2001:db8:48:ffff::1");
    expect(refused.headers.get("X-RateLimit-Remaining")).toBe("0");
    expect(await refused.json()).toMatchObject({
      code: "rate_limit_exceeded",
      message: expect.stringContaining("so this key was not checked; retry in 40 s, at 2026-11-20T12:35:00Z"),
    });
    expect((await send(secret, "2001:db8:49::1")).status).toBe(404);
    expect((await send(known.secret, "2001:db8:48:ffff::1")).status).toBe(404);
    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
    expect((await send((await newKey()).secret, "2001:db8:48:ffff::1")).status).toBe(404);
  });

  it("counts an unknown key once that comes 100 times at once", async () => {
    const dead = newSecret();
    const address = newAddress();
    // No lookup ends before all requests have arrived: otherwise the cache would serve them.
    const statements = holdStatementsUntil(100);
    expect(await statusesAtOnce(Array.from({ length: 100 }, () => send(dead, address)))).toContain(401);
    expect(statements).toEqual(["primary"]);
    vi.restoreAllMocks();
    expect((await send((await newKey()).secret, address)).status).toBe(404);
  });
});
