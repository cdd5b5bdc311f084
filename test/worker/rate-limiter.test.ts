// The rate-limiter object: what it stores, for how long, and the path from a request to it. quota.test.ts has its decisions.

import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { MESSAGES } from "../../src/http/messages.ts";
import type { RateLimiter } from "../../src/index.ts";
import { PLAN_LIMITS } from "../../src/rate-limit/plans.ts";
import type { AcquireRequest } from "../../src/rate-limit/protocol.ts";
import { type ErrorBody, newClient } from "../support/worker/client.ts";

const DAY_MS = 86_400_000;
const FREE = PLAN_LIMITS.free;

/** The test pool hides errors with this prefix, because it throws them itself. */
const CRASH = "Instance disposed";

const NOTHING = { released: [], outbox: [], bannedUntilMs: 0, bansLiftedUntilMs: 0 };

const newLimiter = () => env.RATE_LIMITER.getByName(`key-${crypto.randomUUID()}`);

function batch(requests: number, rest: Partial<AcquireRequest> = {}): AcquireRequest {
  return { id: crypto.randomUUID(), requests, waitedMs: 0, ...NOTHING, ...rest };
}

/** The counts of minute and day in the object. */
async function usedOf(limiter: DurableObjectStub<RateLimiter>): Promise<number[]> {
  const { minute, day } = (await limiter.usage(FREE)).status.windows;
  return [minute.used, day.used];
}

it("admits exactly 20 of 50 concurrent requests, each with a different Remaining", async () => {
  const client = await newClient({ plan: "enterprise", limits: { minute: 20, day: 1_000 } });
  const responses = await Promise.all(Array.from({ length: 50 }, () => client.get("/v1/pets")));
  const admitted = responses.filter(({ status }) => status === 200);
  const refused = responses.filter(({ status }) => status === 429);
  expect([admitted.length, refused.length]).toEqual([20, 30]);
  const left = admitted.map(({ headers }) => Number(headers.get("X-RateLimit-Remaining")));
  // Two requests decided on the same count would show the same number.
  expect(left.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, index) => index));
});

it.each([
  ["minute", { minute: 2, day: 100 }, Date.UTC(2026, 10, 20, 12, 35), 40],
  ["day", { minute: 5, day: 2 }, Date.UTC(2026, 10, 21), 41_140],
])("refuses requests until the %s ends, and says so", async (window, limits, endMs, seconds) => {
  const client = await newClient({ plan: "enterprise", limits });
  const statuses = [];
  for (const nowMs of [Date.now(), Date.now(), endMs - 1, endMs]) {
    vi.setSystemTime(nowMs);
    statuses.push((await client.get("/v1/pets")).status);
    if (statuses.length !== 2) continue;
    const refused = await client.get("/v1/pets");
    expect(await refused.json<ErrorBody>()).toEqual({
      code: "rate_limit_exceeded",
      message: MESSAGES.rate_limit_exceeded.key(2, window, { seconds, atMs: endMs }),
      status: 429,
    });
    expect(refused.headers.get("Cache-Control")).toBe("no-store");
  }
  expect(statuses).toEqual([200, 200, 429, 200]);
});

it("admits exactly the limit although the object crashes repeatedly in the middle of a call", async () => {
  const client = await newClient({ plan: "enterprise", limits: { minute: 10, day: 1_000 } });
  const limiter = () => env.RATE_LIMITER.getByName(client.id);
  const statuses: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    await runInDurableObject(limiter(), (_: RateLimiter, ctx) => {
      const { kv } = ctx.storage;
      const put = kv.put.bind(kv);
      vi.spyOn(kv, "put").mockImplementation((key, value) => {
        put(key, value);
        ctx.abort(CRASH);
      });
    });
    const responses = await Promise.all(Array.from({ length: 5 }, () => client.get("/v1/nowhere")));
    statuses.push(...responses.map(({ status }) => status));
  }
  expect(statuses.toSorted()).toEqual([...Array(10).fill(404), ...Array(5).fill(429)]);
  expect(await usedOf(limiter())).toEqual([10, 10]);
});

it("keeps requests, leases, batches, refusals and bans across an eviction", async () => {
  const limits = { minute: 320, day: 10_000 };
  const limiter = newLimiter();
  const requests = [
    batch(32, { lease: { size: 8, durationMs: 800 } }),
    batch(40),
    batch(300),
    batch(0, { bannedUntilMs: Date.now() + 60_000 }),
  ];
  for (const request of requests) {
    const answer = await limiter.acquire(limits, request);
    const before = await limiter.usage(limits);
    await evictDurableObject(limiter);
    expect(await limiter.usage(limits)).toEqual(before);
    // A repeated batch gets the same result, except refusals, which are not stored.
    if (answer.admitted > 0) expect(await limiter.acquire(limits, request)).toEqual(answer);
  }
  const { status } = await limiter.usage(limits);
  expect(status.leases).toHaveLength(1);
  expect(status.windows.minute.used).toBe(320);
});

it("writes one value per change, and none without a change", async () => {
  const limits = { minute: 64, day: 1_000 };
  await runInDurableObject(newLimiter(), (instance: RateLimiter, { storage }) => {
    const put = vi.spyOn(storage.kv, "put");
    const writes = (work: () => unknown) => {
      put.mockClear();
      work();
      return put.mock.calls.length;
    };
    const leased = batch(1, { lease: { size: 3, durationMs: 800 } });
    const released = { ...NOTHING, released: [{ id: leased.id, unused: 3 }] };
    const acquire = (request: AcquireRequest) => () => instance.acquire(limits, request);
    const release = () => instance.release(limits, released);
    const usage = () => instance.usage(limits);
    expect([usage, acquire(leased), acquire(leased), usage].map(writes)).toEqual([0, 1, 0, 0]);
    // The third batch is undecided, the last one refused.
    expect([acquire(batch(60)), acquire(batch(1)), release, release].map(writes)).toEqual([1, 0, 1, 0]);
    expect(writes(acquire(batch(4)))).toBe(1);
    expect(writes(acquire(batch(0, { bannedUntilMs: Date.now() + 1_000 })))).toBe(1);
    expect(writes(acquire(batch(5)))).toBe(0);
  });
});

it("counts nothing if the write fails", async () => {
  const limiter = newLimiter();
  await runInDurableObject(limiter, (instance: RateLimiter, { storage }) => {
    const put = vi.spyOn(storage.kv, "put").mockImplementation(() => {
      throw new Error("the disk is full");
    });
    expect(() => instance.acquire(FREE, batch(1))).toThrow("the disk is full");
    put.mockRestore();
    instance.acquire(FREE, batch(1));
  });
  expect(await usedOf(limiter)).toEqual([1, 1]);
});

// In the far future, so that no alarm fires by itself: the platform's clock is not faked.
const FAR_MS = Date.UTC(2100, 0, 1, 23, 59);

it("deletes its storage after 40 days without requests, not before", async () => {
  vi.setSystemTime(FAR_MS);
  const limiter = newLimiter();
  await limiter.acquire(FREE, batch(1));
  const alarmMs = Date.UTC(2100, 0, 1) + 41 * DAY_MS;
  const stored: number[] = [];
  for (const nowMs of [alarmMs - 1, alarmMs]) {
    await runInDurableObject(limiter, (_: RateLimiter, { storage }) => storage.setAlarm(alarmMs));
    vi.setSystemTime(nowMs);
    await runDurableObjectAlarm(limiter);
    stored.push(
      await runInDurableObject(limiter, (_: RateLimiter, { storage }) => [...storage.kv.list()].length),
    );
  }
  expect(stored).toEqual([1, 0]);
  expect(await usedOf(limiter)).toEqual([0, 0]);
});

it("counts and stores a request that arrives during the deletion", async () => {
  vi.setSystemTime(FAR_MS);
  const limiter = newLimiter();
  await limiter.acquire(FREE, batch(1));
  vi.setSystemTime(FAR_MS + 41 * DAY_MS);
  await runInDurableObject(limiter, async (instance: RateLimiter) => {
    const alarm = instance.alarm();
    instance.acquire(FREE, batch(1));
    await alarm;
  });
  expect(await usedOf(limiter)).toEqual([1, 1]);
  await evictDurableObject(limiter);
  expect(await usedOf(limiter)).toEqual([1, 1]);
  expect((await limiter.usage(FREE)).pastDays).toEqual([]);
});

it("moves its alarm with the first request of each day only", async () => {
  vi.setSystemTime(FAR_MS);
  const limiter = newLimiter();
  const alarms: number[] = [];
  for (let day = 0; day < 3; day += 1) {
    const moved = await runInDurableObject(limiter, (instance: RateLimiter, { storage }) => {
      const setAlarm = vi.spyOn(storage, "setAlarm");
      for (let request = 0; request < 3; request += 1) instance.acquire(FREE, batch(1));
      return setAlarm.mock.calls.map(([ms]) => Number(ms));
    });
    alarms.push(...moved);
    await evictDurableObject(limiter);
    await limiter.acquire(FREE, batch(1));
    expect(await runInDurableObject(limiter, (_, { storage }) => storage.getAlarm())).toBe(alarms.at(-1));
    vi.setSystemTime(Date.now() + DAY_MS);
  }
  expect(alarms).toEqual([41, 42, 43].map((days) => Date.UTC(2100, 0, 1) + days * DAY_MS));
});
