// API keys: format, storage and authentication.

import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { clientAddress } from "../../src/http/client-address.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { revokeKey, rotateKey } from "../../src/keys/admin.ts";
import { listKeys } from "../../src/keys/records.ts";
import { isWellFormedSecret, newSecret, withChecksum, withoutSecrets } from "../../src/keys/secret.ts";
import { randomBase62 } from "../../src/lib/base62.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import { AddressCounter } from "../../src/rate-limit/anonymous.ts";
import { room } from "../../src/rate-limit/windows.ts";
import {
  fetchWithoutKey,
  newAddress,
  newClient,
  newKey,
  operator,
  watchLimiter,
} from "../support/worker/client.ts";
import { interceptStatements, watchStatements } from "../support/worker/database-stub.ts";
import type { Place } from "../support/worker/stub-bindings.ts";

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
  const send = (key: string, from: string) =>
    fetchWithoutKey("/v1/nowhere", {
      headers: { "CF-Connecting-IP": from, Authorization: `Bearer ${key}` },
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
  const elsewhere = send(secret, newAddress());
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

describe("the format of a key", () => {
  it("is pet_, 32 characters and a valid checksum", () => {
    for (let times = 0; times < 100; times += 1) {
      const secret = newSecret();
      expect(secret).toMatch(/^pet_[0-9A-Za-z]{38}$/);
      expect(isWellFormedSecret(secret)).toBe(true);
    }
  });

  it("is stable, so that issued keys stay valid", () => {
    // The CRC32 of the first 36 characters, by another implementation, is 0x5684f9b4: in base62, 1aEZpU.
    expect(isWellFormedSecret("pet_0123456789ABCDEFGHIJKLMNOPQRSTUV1aEZpU")).toBe(true);
  });

  it("detects every change of one character", () => {
    const position = fc.integer({ min: 0, max: 41 });
    const character = fc.constantFrom(..."0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_");
    fc.assert(
      fc.property(position, character, (index, replacement) => {
        const secret = newSecret();
        fc.pre(secret[index] !== replacement);
        expect(isWellFormedSecret(secret.slice(0, index) + replacement + secret.slice(index + 1))).toBe(
          false,
        );
      }),
    );
  });

  it.each([
    ["a character less", `pet_${randomBase62(31)}`],
    ["a character more", `pet_${randomBase62(33)}`],
    ["another prefix", `pat_${randomBase62(32)}`],
    ["another character", `pet_${randomBase62(31)}-`],
    ["nothing but a checksum", ""],
  ])("excludes %s, despite a valid checksum", (_, body) => {
    expect(isWellFormedSecret(withChecksum(body))).toBe(false);
  });

  it("is redacted from printed text, also if it is incomplete", () => {
    const text = `${newSecret()} and ${newSecret().slice(0, -9)}, but not pet_shop`;
    expect(withoutSecrets(text)).toBe("pet_… and pet_…, but not pet_shop");
  });

  it("has uniformly random characters", () => {
    const counts = new Map<string, number>();
    for (let times = 0; times < 2_000; times += 1) {
      for (const character of randomBase62(62)) counts.set(character, (counts.get(character) ?? 0) + 1);
    }
    expect(counts.size).toBe(62);
    // Six standard deviations; a remainder of bytes by 62 would put eight characters 24 % above the others.
    for (const count of counts.values()) expect(Math.abs(count - 2_000)).toBeLessThan(270);
  });
});

describe("a stored key", () => {
  it("is a SHA-256 and the last four characters, never the secret", async () => {
    const { id, secret } = await newKey();
    const row = await env.DB.prepare("SELECT *, hex(hash) AS hash FROM keys WHERE id = ?1").bind(id).first();
    expect(row).toMatchObject({
      hash: (await sha256(secret)).toUpperCase(),
      last_four: secret.slice(-4),
    });
    expect(JSON.stringify(row)).not.toContain(secret.slice(4, 36));
    expect(JSON.stringify(await listKeys(env.DB, Date.now()))).not.toContain(secret.slice(4, 36));
  });

  it("matches the SHA-256 test vector of NIST", async () => {
    expect(await sha256("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  });

  it.each([
    ["a plan that does not exist", "'n', 'gold', NULL, NULL, randomblob(32), 'abcd', 1, NULL"],
    ["enterprise without limits", "'n', 'enterprise', NULL, NULL, randomblob(32), 'abcd', 1, NULL"],
    ["enterprise without a limit per day", "'n', 'enterprise', 5, NULL, randomblob(32), 'abcd', 1, NULL"],
    ["enterprise without a limit per minute", "'n', 'enterprise', NULL, 5, randomblob(32), 'abcd', 1, NULL"],
    ["a limit per minute on another plan", "'n', 'free', 5, NULL, randomblob(32), 'abcd', 1, NULL"],
    ["a limit per day on another plan", "'n', 'free', NULL, 5, randomblob(32), 'abcd', 1, NULL"],
    ["limits on another plan", "'n', 'free', 5, 5, randomblob(32), 'abcd', 1, NULL"],
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
  it("runs no query for a malformed key or a wrong checksum", async () => {
    const statements = watchStatements();
    const secret = newSecret();
    for (const text of [
      "x",
      secret.slice(0, -1),
      `${secret.slice(0, -1)}${secret.endsWith("0") ? "1" : "0"}`,
    ]) {
      const response = await fetchWithoutKey("/v1/pets", { headers: { Authorization: `Bearer ${text}` } });
      expect(response.status).toBe(401);
    }
    expect(statements).toEqual([]);
  });

  it("caches a lookup for 30 seconds, to the millisecond", async () => {
    const { id, secret } = await newKey();
    const call = () => fetchWithoutKey("/v1/nowhere", { headers: { Authorization: `Bearer ${secret}` } });
    expect((await call()).status).toBe(404);
    await env.DB.prepare("DELETE FROM keys WHERE id = ?1").bind(id).run();
    vi.setSystemTime(Date.now() + 29_999);
    expect((await withoutDatabase(call)).status).toBe(404);
    vi.setSystemTime(Date.now() + 1);
    expect((await call()).status).toBe(401);
  });

  it("runs one query for repeated requests with a key, known or unknown", async () => {
    const known = (await newKey()).secret;
    const address = newAddress();
    for (const [secret, status] of [
      [known, 404],
      [newSecret(), 401],
    ] as const) {
      const headers = { Authorization: `Bearer ${secret}`, "CF-Connecting-IP": address };
      const statements = watchStatements();
      for (let times = 0; times < 5; times += 1) {
        expect((await fetchWithoutKey("/v1/nowhere", { headers })).status).toBe(status);
      }
      expect(statements).toEqual(["primary"]);
    }
  });

  it("applies a changed plan after 30 seconds, and keeps the counts", async () => {
    const client = await newClient({ plan: "free" });
    expect((await client.get("/v1/pets")).headers.get("X-RateLimit-Remaining")).toBe("59");
    await env.DB.prepare("UPDATE keys SET plan = 'pro' WHERE id = ?1").bind(client.id).run();
    vi.setSystemTime(Date.now() + 30_000);
    const { headers } = await client.get("/v1/pets");
    expect(headers.get("RateLimit")).toMatch(/^"minute";r=298;t=\d+, "day";r=9998;/);
  });

  it("rejects a cached key from the millisecond of its expiry", async () => {
    const expiresAtMs = Date.now() + 10_000;
    const client = await newClient({ expiresAtMs });
    vi.setSystemTime(expiresAtMs - 1);
    expect((await client.get("/v1/pets")).status).toBe(200);
    vi.setSystemTime(expiresAtMs);
    const response = await client.get("/v1/pets");
    expect(response.status).toBe(401);
    expect(response.headers.get("WWW-Authenticate")).toContain("invalid_token");
  });

  it.each(["Basic", "xBearer", "Bearer,"])("ignores a key with the scheme %j", async (scheme) => {
    const { secret } = await newKey();
    const headers = { Authorization: `${scheme} ${secret}` };
    const response = await fetchWithoutKey("/v1/pets", { headers });
    expect(response.headers.get("WWW-Authenticate")).toBe('Bearer realm="petstore"');
  });
});

describe("a revoked key", () => {
  it("is reported as revoked, also if its secret was replaced before", async () => {
    const { id, secret } = await newKey();
    await rotateKey(env.DB, id, 0, operator());
    await revokeKey(env.DB, id, operator());
    const headers = { Authorization: `Bearer ${secret}` };
    const response = await fetchWithoutKey("/v1/pets", { headers });
    expect(await response.json()).toMatchObject({
      code: "unauthorized",
      message: MESSAGES.unauthorized.revoked,
    });
  });

  it("is rejected again after each lookup, even if it was never counted", async () => {
    const { id, secret } = await newKey();
    await revokeKey(env.DB, id, operator());
    const headers = { Authorization: `Bearer ${secret}` };
    const statuses: number[] = [];
    for (const pauseMs of [0, 20_000, 30_000, 30_000]) {
      vi.setSystemTime(Date.now() + pauseMs);
      statuses.push((await fetchWithoutKey("/v1/pets", { headers })).status);
    }
    expect(statuses).toEqual([401, 401, 401, 401]);
  });

  it("does not use up the lookups of its address", async () => {
    const client = await newClient();
    await revokeKey(env.DB, client.id, operator());
    const address = { "CF-Connecting-IP": newAddress() };
    for (let minute = 0; minute < 70; minute += 1) {
      await client.call("/v1/pets", { headers: address });
      vi.setSystemTime(Date.now() + 30_000);
    }
    const neighbour = await newClient();
    expect((await neighbour.call("/v1/pets", { headers: address })).status).toBe(200);
  });
});

/** Invalid secrets by the message that they get. */
const WRONG = {
  unknown: async () => newSecret(),
  expired: async () => {
    const { secret } = await newKey({ expiresAtMs: Date.now() + 1 });
    vi.setSystemTime(Date.now() + 1);
    return secret;
  },
  revoked: async () => {
    const { id, secret } = await newKey();
    await revokeKey(env.DB, id, operator());
    return secret;
  },
  replaced: async () => {
    const { id, secret } = await newKey();
    await rotateKey(env.DB, id, 0, operator());
    return secret;
  },
} satisfies Partial<Record<keyof typeof MESSAGES.unauthorized, () => Promise<string>>>;

describe("callers without a valid key", () => {
  it("get a 401 that says how to send a key", async () => {
    const response = await fetchWithoutKey("/v1/pets");
    expect(await response.json()).toEqual({
      code: "unauthorized",
      message: MESSAGES.unauthorized.missing,
      status: 401,
    });
    expect(response.headers.get("WWW-Authenticate")).toBe('Bearer realm="petstore"');
  });

  it.each(Object.keys(WRONG) as (keyof typeof WRONG)[])(
    "get a 401 that says what is wrong: %s",
    async (problem) => {
      const headers = { Authorization: `Bearer ${await WRONG[problem]()}` };
      const response = await fetchWithoutKey("/v1/pets", { headers });
      expect(await response.json()).toEqual({
        code: "unauthorized",
        message: MESSAGES.unauthorized[problem],
        status: 401,
      });
      const challenge = 'Bearer realm="petstore", error="invalid_token"';
      expect(response.headers.get("WWW-Authenticate")).toBe(challenge);
    },
  );

  it("need a lookup again when the cached result of their key has expired", async () => {
    const dead = newSecret();
    const address = { "CF-Connecting-IP": newAddress() };
    const call = (secret: string) =>
      fetchWithoutKey("/v1/pets", { headers: { ...address, Authorization: `Bearer ${secret}` } });
    await call(dead);
    vi.setSystemTime(Date.now() + 30_000);
    for (let times = 0; times < 60; times += 1) await call(newSecret());
    const statements = watchStatements();
    await call(dead);
    expect(statements).toEqual([]);
  });

  it("are not revalidated in the background", async () => {
    const headers = { Authorization: `Bearer ${newSecret()}` };
    expect((await fetchWithoutKey("/v1/pets", { headers })).status).toBe(401);
    vi.setSystemTime(Date.now() + 29_999);
    const statements = watchStatements();
    expect((await fetchWithoutKey("/v1/pets", { headers })).status).toBe(401);
    expect(statements).toEqual([]);
  });

  it("get 60 responses per minute and address, then 429, without a query or a call of the object", async () => {
    const statements = watchStatements();
    const calls = watchLimiter();
    const headers = { "CF-Connecting-IP": newAddress(), Authorization: "Bearer wrong" };
    const statuses: number[] = [];
    for (let times = 0; times < 70; times += 1) {
      statuses.push((await fetchWithoutKey("/v1/pets", { headers })).status);
    }
    expect(statuses).toEqual([...Array(60).fill(401), ...Array(10).fill(429)]);
    expect([statements, calls]).toEqual([[], []]);

    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
    expect((await fetchWithoutKey("/v1/pets", { headers })).status).toBe(401);
  });

  it("never consume the quota of a key, even from its address", async () => {
    const client = await newClient({ plan: "free" });
    const address = { "CF-Connecting-IP": newAddress() };
    for (let times = 0; times < 70; times += 1) await fetchWithoutKey("/v1/pets", { headers: address });
    expect((await fetchWithoutKey("/v1/pets", { headers: address })).status).toBe(429);
    // The key is new to the isolate: it must be looked up although its address has used up its requests.
    const { status, headers } = await client.call("/v1/pets", { headers: address });
    expect([status, headers.get("X-RateLimit-Remaining")]).toEqual([200, "59"]);
  });
});

describe("the lookup throttle", () => {
  it("allows 60 unknown keys per minute and address, one after the other", async () => {
    const address = newAddress();
    const statements = watchStatements();
    const guess = () =>
      fetchWithoutKey("/v1/pets", {
        headers: { "CF-Connecting-IP": address, Authorization: `Bearer ${newSecret()}` },
      });
    const statuses: number[] = [];
    for (let times = 0; times < 100; times += 1) statuses.push((await guess()).status);
    expect(statuses).toEqual([...Array(60).fill(401), ...Array(40).fill(429)]);
    expect(statements).toEqual(Array(60).fill("primary"));

    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
    expect((await guess()).status).toBe(401);
    expect(statements).toHaveLength(61);
  });

  it("allows 60 of 200 unknown keys at once", async () => {
    const address = newAddress();
    const statements = holdStatementsUntil(200);
    const guess = () =>
      fetchWithoutKey("/v1/pets", {
        headers: { "CF-Connecting-IP": address, Authorization: `Bearer ${newSecret()}` },
      });
    const statuses = (await Promise.all(Array.from({ length: 200 }, guess))).map(({ status }) => status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(60);
    expect(statuses.filter((status) => status === 429)).toHaveLength(140);
    expect(statements).toHaveLength(60);
  });

  it("allows 100 valid keys at once from one address, all new to the isolate", async () => {
    const clients = await Promise.all(Array.from({ length: 100 }, () => newClient()));
    const headers = { "CF-Connecting-IP": newAddress() };
    const statements = holdStatementsUntil(100);
    const responses = await Promise.all(clients.map((client) => client.call("/v1/nowhere", { headers })));
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([404]));
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
    const client = await newClient();
    const address = { "CF-Connecting-IP": newAddress() };
    expect((await client.call("/v1/pets", { headers: address })).status).toBe(200);
    vi.setSystemTime(Date.now() + 30_000);
    for (let times = 0; times < 70; times += 1) {
      await fetchWithoutKey("/v1/pets", { headers: { ...address, Authorization: `Bearer ${newSecret()}` } });
    }
    expect((await client.call("/v1/pets", { headers: address })).status).toBe(200);
  });

  it("lets 100 known keys be revalidated at once", async () => {
    const clients = await Promise.all(Array.from({ length: 100 }, () => newClient()));
    const headers = { "CF-Connecting-IP": newAddress() };
    const callAll = () => Promise.all(clients.map((client) => client.call("/v1/nowhere", { headers })));
    await callAll();
    vi.setSystemTime(Date.now() + 30_000);
    let underway = 0;
    let most = 0;
    interceptStatements(async (run) => {
      underway += 1;
      most = Math.max(most, underway);
      while (most < 100) await scheduler.wait(1);
      return run().finally(() => (underway -= 1));
    });
    await callAll();
    expect(most).toBe(100);
  });

  it("counts each Worker's zone separately", async () => {
    const call = (secret: string, zone: string) =>
      fetchWithoutKey("/v1/nowhere", {
        headers: {
          "CF-Connecting-IP": "2a06:98c0:3600::103",
          "CF-Worker": zone,
          Authorization: `Bearer ${secret}`,
        },
      });
    for (let times = 0; times < 60; times += 1) await call(newSecret(), "guesser.example");
    const { secret } = await newKey();
    expect((await call(secret, "guesser.example")).status).toBe(429);
    expect((await call(secret, "customer.example")).status).toBe(404);
  });

  it("counts all networks of an IPv6 /48 together, and no other", async () => {
    const known = await newClient();
    await known.get("/v1/nowhere");
    const statements = watchStatements();
    const call = (secret: string, address: string) =>
      fetchWithoutKey("/v1/nowhere", {
        headers: { "CF-Connecting-IP": address, Authorization: `Bearer ${secret}` },
      });
    const statuses: number[] = [];
    for (let site = 0; site < 100; site += 1) {
      statuses.push((await call(newSecret(), `2001:db8:48:${site.toString(16)}::1`)).status);
    }
    expect(statuses).toEqual([...Array(60).fill(401), ...Array(40).fill(429)]);
    expect(statements).toHaveLength(60);

    const { secret } = await newKey();
    // A 401 would be wrong: the key was not looked up.
    const refused = await call(secret, "2001:db8:48:ffff::1");
    expect(refused.headers.get("X-RateLimit-Remaining")).toBe("0");
    expect(await refused.json()).toMatchObject({
      code: "rate_limit_exceeded",
      message: MESSAGES.rate_limit_exceeded.unknownKeys(60, "minute", {
        seconds: 40,
        atMs: Date.UTC(2026, 10, 20, 12, 35),
      }),
    });
    expect((await call(secret, "2001:db8:49::1")).status).toBe(404);
    expect((await call(known.secret, "2001:db8:48:ffff::1")).status).toBe(404);
    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
    expect((await call((await newKey()).secret, "2001:db8:48:ffff::1")).status).toBe(404);
  });

  it("counts an unknown key once that comes 100 times at once", async () => {
    const address = { "CF-Connecting-IP": newAddress() };
    const dead = { ...address, Authorization: `Bearer ${newSecret()}` };
    // No lookup ends before all requests have arrived: otherwise the cache would serve them.
    const statements = holdStatementsUntil(100);
    const responses = await Promise.all(
      Array.from({ length: 100 }, () => fetchWithoutKey("/v1/pets", { headers: dead })),
    );
    expect(new Set(responses.map(({ status }) => status))).toContain(401);
    expect(statements).toEqual(["primary"]);
    vi.restoreAllMocks();
    const neighbour = await newClient();
    expect((await neighbour.call("/v1/pets", { headers: address })).status).toBe(200);
  });
});

it("the address counter evicts the addresses that it has not counted for longest", () => {
  const addresses = new AddressCounter();
  const nowMs = Date.now();
  for (let address = 0; address < 10_001; address += 1) addresses.count(`${address}`, nowMs);
  const left = (address: string) => room(addresses.peek(address, nowMs).windows);
  // A sixteenth is evicted at once.
  expect([left("0"), left("625"), left("626"), left("10000")]).toEqual([60, 60, 59, 59]);
});

describe("the address of a client", () => {
  const addressOf = (ip?: string) => clientAddress({ header: () => ip });

  it.each([
    ["192.0.2.7", "192.0.2.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:DB8:1:2::9", "2001:db8:1:2::/64"],
    ["2001:db8::", "2001:db8:0:0::/64"],
    ["2001:db8::1:2:3:4", "2001:db8:0:0::/64"],
    ["2001:db8:0:1::1", "2001:db8:0:1::/64"],
    // Groups after `::` can belong to the network, and `::` can stand for none.
    ["1::3:4:5:6:7:8", "1:0:3:4::/64"],
    ["1:2::3:4:5:6:7:8", "1:2:3:4::/64"],
    ["::1", "0:0:0:0::/64"],
    ["fe80::", "fe80:0:0:0::/64"],
    ["::ffff:192.0.2.7", "0:0:0:0::/64"],
    ["1:2:3:4:5:6:7:8::9:10", "1:2:3:4::/64"],
    ["not an address", "not an address"],
    ["::::", "0:0:0:0::/64"],
  ])("%s counts as %s", (ip, address) => {
    expect(addressOf(ip)).toBe(address);
  });

  it("is one for all clients without an address", () => {
    expect(addressOf(undefined)).toBe("unknown");
  });

  it("is counted per IPv6 /64", async () => {
    const left = async (ip: string) =>
      (await fetchWithoutKey("/v1/pets", { headers: { "CF-Connecting-IP": ip } })).headers.get(
        "X-RateLimit-Remaining",
      );
    expect(await left("2001:db8:aa:1::1")).toBe("59");
    expect(await left("2001:db8:aa:1:ffff::2")).toBe("58");
    expect(await left("2001:db8:aa:2::1")).toBe("59");
  });
});
