// The rate-limiter object on the platform: what it stores, and for how long. test/unit/quota.test.ts has its decisions, test/simulation
// its crashes and evictions.

import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { RateLimiter } from "../../src/index.ts";
import { listChanges } from "../../src/keys/records.ts";
import { PLAN_LIMITS } from "../../src/rate-limit/plans.ts";
import { banKey, batch, newClient, newKey, pass } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

const DAY_MS = 86_400_000;
const FREE = PLAN_LIMITS.free;

/** The test pool hides errors with this prefix, because it throws them itself. */
const CRASH = "Instance disposed";

const newLimiter = () => env.RATE_LIMITER.getByName(`key-${crypto.randomUUID()}`);

/** The counts of minute and day in the object. */
async function usedOf(limiter: DurableObjectStub<RateLimiter>): Promise<number[]> {
  const { minute, day } = (await limiter.usage(FREE)).status.windows;
  return [minute.used, day.used];
}

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

it("writes one value per change, none without a change, and counts nothing if the write fails", async () => {
  const limiter = newLimiter();
  await runInDurableObject(limiter, (instance: RateLimiter, { storage }) => {
    const put = vi.spyOn(storage.kv, "put");
    const client = "isolate";
    const usage = () => instance.usage(FREE);
    const first = batch(1, { client, recent: 20 });
    const lease = { id: 1, used: 0, isOver: true };
    const report = (number: number) => () => instance.acquire(FREE, batch(0, { client, number, lease }));
    const acquire = () => instance.acquire(FREE, first);
    const writes = [usage, acquire, acquire, usage, report(2), report(3)].map((call) => {
      put.mockClear();
      call();
      return put.mock.calls.length;
    });
    expect(writes).toEqual([0, 1, 0, 0, 1, 0]);
    put.mockImplementation(() => {
      throw new Error("the disk is full");
    });
    expect(() => instance.acquire(FREE, batch(1))).toThrow("the disk is full");
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
  await evictDurableObject(limiter);
  expect(await usedOf(limiter)).toEqual([1, 1]);
  expect((await limiter.usage(FREE)).pastDays).toEqual([]);
});

it("moves its alarm with the first request of each day only", async () => {
  vi.setSystemTime(FAR_MS);
  const limiter = newLimiter();
  const alarms: unknown[] = [];
  for (let day = 0; day < 3; day += 1) {
    await runInDurableObject(limiter, (instance: RateLimiter, { storage }) => {
      const setAlarm = vi.spyOn(storage, "setAlarm");
      for (let request = 0; request < 3; request += 1) instance.acquire(FREE, batch(1));
      alarms.push(...setAlarm.mock.calls.flat());
    });
    await evictDurableObject(limiter);
    vi.setSystemTime(Date.now() + DAY_MS);
  }
  expect(alarms).toEqual([41, 42, 43].map((days) => Date.UTC(2100, 0, 1) + days * DAY_MS));
});

describe("the record of a ban", () => {
  /** Has just begun a ban. Its alarm fires when the test says so. */
  async function newBanned() {
    vi.setSystemTime(FAR_MS);
    const { id } = await newKey({ plan: "free" });
    const limiter = env.RATE_LIMITER.getByName(id);
    await banKey(id);
    const alarmMs = () => runInDurableObject(limiter, (_: RateLimiter, { storage }) => storage.getAlarm());
    const rows = async () =>
      (await listChanges(env.DB, id, 10)).filter(({ change }) => change === "banned").length;
    return { id, limiter, alarmMs, rows };
  }

  it("is made by an alarm, which survives a crash, once", async () => {
    const { limiter, alarmMs, rows } = await newBanned();
    await evictDurableObject(limiter);
    expect([await alarmMs(), await rows()]).toEqual([FAR_MS, 0]);
    for (let time = 0; time < 2; time += 1) await runDurableObjectAlarm(limiter);
    expect(await rows()).toBe(1);
    expect(await alarmMs()).toBe(Date.UTC(2100, 0, 1) + 41 * DAY_MS);
  });

  it("is tried every 30 s while the database fails, until the ban ends", async () => {
    const { id, limiter, alarmMs, rows } = await newBanned();
    const prepare = env.DB.prepare.bind(env.DB);
    const failing = vi.spyOn(env.DB, "prepare").mockImplementation((sql) => {
      if (sql.includes("key_changes")) throw new Error("D1_ERROR: the database is away");
      return prepare(sql);
    });
    takeLogLines();
    await runDurableObjectAlarm(limiter);
    expect(takeLogLines()).toEqual([expect.objectContaining({ event: "ban_not_recorded", keyId: id })]);
    expect(await alarmMs()).toBe(FAR_MS + 30_000);
    failing.mockRestore();
    pass(30_000);
    await runDurableObjectAlarm(limiter);
    expect(await rows()).toBe(1);
  });

  it("is not given up because a new day begins", async () => {
    const { limiter, alarmMs } = await newBanned();
    pass(60_000);
    const refusals = { number: 1, atMs: Date.now(), admitted: 0, refused: 1, late: 0, arrivedMs: 0 };
    await limiter.acquire(FREE, batch(0, { number: 2, decisions: [refusals] }));
    // The alarm of the ban.
    expect(await alarmMs()).toBe(FAR_MS);
  });
});
