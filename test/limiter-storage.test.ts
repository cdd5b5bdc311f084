// What the Durable Object of a key keeps, for how long, and that nothing is burnt or gained when it breaks.

import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import type { RateLimiter } from "../src/index.ts";
import { RESERVATIONS_ENABLED } from "../src/rate-limit/reservation.ts";
import { newClient } from "./client.ts";
import { crash } from "./crash.ts";

const DAY_MS = 86_400_000;
const FREE = { minute: 60, day: 1_000 };

const newLimiter = () => env.RATE_LIMITER.getByName(`key-${crypto.randomUUID()}`);

/** Another stub for the same object: one that has met a crash goes on failing. */
const again = ({ name = "" }: { name?: string }) => env.RATE_LIMITER.getByName(name);

/** When the object's alarm rings. The platform's own clock is not faked, so it is set to ring in the real future. */
function alarmOf(limiter: ReturnType<typeof newLimiter>): Promise<number | null> {
  return runInDurableObject(limiter, (_: RateLimiter, { storage }) => storage.getAlarm());
}

function tablesOf(limiter: ReturnType<typeof newLimiter>): Promise<unknown[]> {
  return runInDurableObject(limiter, (_: RateLimiter, { storage }) =>
    Array.from(
      storage.sql.exec("SELECT name FROM sqlite_schema WHERE name NOT LIKE '\\_%' ESCAPE '\\'"),
      ({ name }) => name,
    ),
  );
}

/** Asks for a take whose row can't be written; afterwards there is room again. */
function takeOnFullDisk(instance: RateLimiter, { sql }: DurableObjectStorage): void {
  const exec = sql.exec.bind(sql);
  const spy = vi.spyOn(sql, "exec").mockImplementation((query, ...values) => {
    if (query.startsWith("INSERT")) throw new Error("the disk is full");
    return exec(query, ...values);
  });
  expect(() => instance.take(FREE)).toThrow("the disk is full");
  spy.mockRestore();
}

describe("the storage of a key", () => {
  it("removes itself when nobody has used the key for 40 days, and not before", async () => {
    // In the future of every clock, so that no alarm rings by itself.
    vi.setSystemTime(Date.UTC(2100, 0, 1, 23, 59));
    const limiter = newLimiter();
    await limiter.take(FREE);
    const alarmMs = await alarmOf(limiter);
    expect(alarmMs).toBe(Date.UTC(2100, 0, 1) + 41 * DAY_MS);

    vi.setSystemTime((alarmMs ?? 0) - 1);
    await runDurableObjectAlarm(limiter);
    expect(await tablesOf(limiter)).toEqual(["days"]);

    vi.setSystemTime(Date.UTC(2100, 0, 1, 23, 59));
    await limiter.take(FREE);
    await runInDurableObject(limiter, (_: RateLimiter, { storage }) => storage.setAlarm(alarmMs ?? 0));
    vi.setSystemTime(alarmMs ?? 0);
    expect(await runDurableObjectAlarm(limiter)).toBe(true);
    expect(await tablesOf(limiter)).toEqual([]);
  });

  it("is there again when the key is used again, in the same object", async () => {
    vi.setSystemTime(Date.UTC(2100, 0, 1));
    const limiter = newLimiter();
    for (let request = 0; request < 3; request += 1) await limiter.take(FREE);
    vi.setSystemTime(Date.UTC(2100, 0, 1) + 41 * DAY_MS);
    await runDurableObjectAlarm(limiter);
    expect((await limiter.usage(FREE)).days).toEqual([]);
    expect((await limiter.take(FREE)).windows.map(({ used }) => used)).toEqual([1, 1]);
    await crash(limiter);
    expect((await again(limiter).take(FREE)).windows.map(({ used }) => used)).toEqual([2, 2]);
  });

  it("is made anew by a request that comes while it is removed", async () => {
    vi.setSystemTime(Date.UTC(2100, 0, 1));
    const limiter = newLimiter();
    await limiter.take(FREE);
    vi.setSystemTime(Date.UTC(2100, 0, 1) + 41 * DAY_MS);
    const used = await runInDurableObject(limiter, async (instance: RateLimiter) => {
      const alarm = instance.alarm();
      const { windows } = instance.take(FREE);
      await alarm;
      return windows.map((window) => window.used);
    });
    expect(used).toEqual([1, 1]);
    expect((await limiter.usage(FREE)).days).toMatchObject([{ admitted: 1 }]);
  });

  it("has its alarm put off by the first request of each day, and by no other", async () => {
    vi.setSystemTime(Date.UTC(2100, 0, 1));
    const limiter = newLimiter();
    const setAlarm = await runInDurableObject(limiter, (instance: RateLimiter, { storage }) => {
      const spy = vi.spyOn(storage, "setAlarm");
      for (let day = 0; day < 3; day += 1) {
        for (let request = 0; request < 5; request += 1) instance.take(FREE);
        // Nor by one in a new life of the object.
        instance.meter = undefined;
        instance.take(FREE);
        vi.setSystemTime(Date.now() + DAY_MS);
      }
      return spy.mock.calls.map(([ms]) => ms);
    });
    expect(setAlarm).toEqual([41, 42, 43].map((days) => Date.UTC(2100, 0, 1) + days * DAY_MS));
  });

  it("has no timer: nothing of a request keeps the object in memory", async () => {
    const timers = [vi.spyOn(globalThis, "setTimeout"), vi.spyOn(globalThis, "setInterval")];
    await runInDurableObject(newLimiter(), (instance: RateLimiter) => {
      for (let request = 0; request < 130; request += 1) instance.take(FREE);
    });
    for (const timer of timers) expect(timer).not.toHaveBeenCalled();
  });

  it("takes over what an earlier version has stored: a deployment gives nobody a second quota", async () => {
    const limiter = newLimiter();
    await runInDurableObject(limiter, (instance: RateLimiter, { storage }) => {
      storage.sql.exec(`CREATE TABLE counters (
        id INTEGER PRIMARY KEY CHECK (id = 1), minute_start_ms INTEGER NOT NULL, minute_used INTEGER NOT NULL,
        day_start_ms INTEGER NOT NULL, day_used INTEGER NOT NULL) STRICT`);
      const starts = [Date.UTC(2026, 10, 20, 12, 34), Date.UTC(2026, 10, 20)];
      storage.sql.exec("INSERT INTO counters VALUES (1, ?1, 59, ?2, 800)", ...starts);
      instance.meter = undefined;
    });
    // The day has begun without an alarm, and may be the last.
    expect((await limiter.usage(FREE)).days).toHaveLength(1);
    expect(await alarmOf(limiter)).toBe(Date.UTC(2026, 10, 20) + 41 * DAY_MS);
    expect((await limiter.take(FREE)).windows.map(({ used }) => used)).toEqual([60, 801]);
    expect((await limiter.take(FREE)).admitted).toBe(false);
    expect(await tablesOf(limiter)).toEqual(["days"]);
    await evictDurableObject(limiter);
    expect((await limiter.usage(FREE)).days).toEqual([
      { startMs: Date.UTC(2026, 10, 20), admitted: 801, refused: 1 },
    ]);
  });

  it("takes over again if the earlier version came back for a while", async () => {
    const limiter = newLimiter();
    for (let request = 0; request < 3; request += 1) await limiter.take(FREE);
    await runInDurableObject(limiter, (instance: RateLimiter, { storage }) => {
      storage.sql.exec(`CREATE TABLE counters (
        id INTEGER PRIMARY KEY CHECK (id = 1), minute_start_ms INTEGER NOT NULL, minute_used INTEGER NOT NULL,
        day_start_ms INTEGER NOT NULL, day_used INTEGER NOT NULL) STRICT`);
      const starts = [Date.UTC(2026, 10, 20, 12, 34), Date.UTC(2026, 10, 20)];
      storage.sql.exec("INSERT INTO counters VALUES (1, ?1, 5, ?2, 7)", ...starts);
      instance.meter = undefined;
    });
    expect((await limiter.take(FREE)).windows.map(({ used }) => used)).toEqual([9, 11]);
  });

  it("takes over what a version has stored that stored nothing ahead and leased nothing", async () => {
    const limiter = newLimiter();
    await runInDurableObject(limiter, (instance: RateLimiter, { storage }) => {
      storage.sql.exec(`CREATE TABLE days (
        slot INTEGER PRIMARY KEY, minute_start_ms INTEGER NOT NULL, minute_used INTEGER NOT NULL,
        minute_refused INTEGER NOT NULL, day_start_ms INTEGER NOT NULL, day_used INTEGER NOT NULL,
        day_refused INTEGER NOT NULL, banned_until_ms INTEGER NOT NULL, recent_takes TEXT NOT NULL) STRICT`);
      const starts = [Date.UTC(2026, 10, 20, 12, 34), Date.UTC(2026, 10, 20)];
      const slot = (Date.UTC(2026, 10, 20) / DAY_MS) % 30;
      storage.sql.exec("INSERT INTO days VALUES (?1, ?2, 5, 1, ?3, 7, 2, 0, '')", slot, ...starts);
      instance.meter = undefined;
    });
    const { windows } = await limiter.take(FREE);
    expect(windows.map(({ used, refused }) => [used, refused])).toEqual([
      [6, 1],
      [8, 2],
    ]);
    await crash(limiter);
    expect((await again(limiter).usage(FREE)).days).toEqual([
      { startMs: Date.UTC(2026, 10, 20), admitted: 8, refused: 2 },
    ]);
  });

  it("is not there while the key has not been used, though its usage was asked for", async () => {
    const limiter = newLimiter();
    expect((await limiter.usage(FREE)).days).toEqual([]);
    expect(await tablesOf(limiter)).toEqual([]);
  });

  it("is written at most once by a request, whether what was stored ahead is used up or not", async () => {
    const limits = { minute: 1_000, day: 10_000 };
    await runInDurableObject(newLimiter(), (instance: RateLimiter, { storage }) => {
      instance.take(limits);
      const exec = vi.spyOn(storage.sql, "exec");
      const written: number[] = [];
      for (let request = 0; request < 33; request += 1) {
        exec.mockClear();
        // A pause ends a burst.
        if (request % 10 === 9) vi.setSystemTime(Date.now() + 1_000);
        instance.take(limits);
        written.push(exec.mock.calls.length);
      }
      expect(new Set(written)).toEqual(new Set(RESERVATIONS_ENABLED ? [0, 1] : [1]));
    });
  });

  it("is not written by a request during a ban, however seldom one comes", async () => {
    await runInDurableObject(newLimiter(), (instance: RateLimiter, { storage }) => {
      for (let request = 0; request < 60 + 61; request += 1) instance.take(FREE);
      const exec = vi.spyOn(storage.sql, "exec");
      for (let request = 0; request < 10; request += 1) {
        vi.setSystemTime(Date.now() + 10_000);
        expect(instance.take(FREE).bannedUntilMs).toBeGreaterThan(Date.now());
      }
      expect(exec).not.toHaveBeenCalled();
    });
  });

  it("keeps the exact totals of a day that ends in a burst", async () => {
    const limits = { minute: 1_000, day: 10_000 };
    const midnightMs = Date.UTC(2026, 10, 21);
    vi.setSystemTime(midnightMs - 100);
    const limiter = newLimiter();
    await runInDurableObject(limiter, (instance: RateLimiter) => {
      for (let request = 0; request < 33; request += 1) {
        instance.take(limits);
        vi.setSystemTime(Date.now() + 1);
      }
      vi.setSystemTime(midnightMs);
      instance.take(limits);
    });
    await crash(limiter);
    expect((await again(limiter).usage(limits)).days[0]).toEqual({
      startMs: midnightMs - DAY_MS,
      admitted: 33,
      refused: 0,
    });
  });

  it("serves a caller of an earlier version, who sends no take", async () => {
    const limiter = newLimiter();
    expect((await limiter.take(FREE)).windows.map(({ used }) => used)).toEqual([1, 1]);
    expect((await limiter.take(FREE)).windows.map(({ used }) => used)).toEqual([2, 2]);
  });
});

describe("the same take again", () => {
  const take = (id: string) => ({ id: id.padStart(10, "0"), unreported: [], bannedUntilMs: 0 });

  it("gets the same answer and counts once, also after a crash", async () => {
    const limiter = newLimiter();
    const limits = { minute: 2, day: 9 };
    const asked = ["a", "b", "c", "a", "b", "c"];
    const first = [];
    for (const id of asked) {
      first.push((await limiter.take(limits, take(id))).admitted);
      // Slowly: the ids of takes in quick succession are not stored each.
      vi.setSystemTime(Date.now() + 1_000);
    }
    expect(first).toEqual([true, true, false, true, true, false]);
    await crash(limiter);
    const counts = async () => {
      const { standing } = await again(limiter).usage(limits);
      return standing.windows.map(({ used, refused }) => [used, refused]);
    };
    const once = [
      [2, 1],
      [2, 1],
    ];
    // Otherwise the refusal would count because it is asked again.
    expect(await counts()).toEqual(once);
    const second = [];
    for (const id of asked) second.push((await again(limiter).take(limits, take(id))).admitted);
    expect(second).toEqual(first);
    expect(await counts()).toEqual(once);
  });

  it("that was refused is decided anew in another window: it has used nothing up", async () => {
    const limiter = newLimiter();
    const limits = { minute: 1, day: 9 };
    await limiter.take(limits, take("a"));
    expect((await limiter.take(limits, take("b"))).admitted).toBe(false);
    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
    const { admitted, windows } = await limiter.take(limits, take("b"));
    expect([admitted, ...windows.map(({ used }) => used)]).toEqual([true, 1, 2]);
    // And that answer is the one that it gets from then on.
    const third = await limiter.take(limits, take("b"));
    expect([third.admitted, ...third.windows.map(({ used }) => used)]).toEqual([true, 1, 2]);
  });

  it("is known among the latest 256, and the memory of them does not grow", async () => {
    const limiter = newLimiter();
    const limits = { minute: 1_000, day: 1_000 };
    for (let request = 0; request < 300; request += 1) await limiter.take(limits, take(`${request}`));
    await limiter.take(limits, take("44"));
    expect((await limiter.usage(limits)).standing.windows[0]?.used).toBe(300);
    await limiter.take(limits, take("43"));
    expect((await limiter.usage(limits)).standing.windows[0]?.used).toBe(301);
    await runInDurableObject(limiter, (_: RateLimiter, { storage }) => {
      const row = storage.sql.exec("SELECT length(recent_takes) AS length FROM days").one();
      expect(row).toEqual({ length: 256 * 11 });
    });
  });
});

describe("nothing is lost and nothing is gained", () => {
  it("by a request whose row can't be written", async () => {
    await runInDurableObject(newLimiter(), (instance: RateLimiter, { storage }) => {
      takeOnFullDisk(instance, storage);
      expect(instance.take(FREE).windows.map(({ used }) => used)).toEqual([1, 1]);
    });
  });

  it("by a key's first request if its row can't be written, and the object is made anew with an empty table", async () => {
    await runInDurableObject(newLimiter(), (instance: RateLimiter, { storage }) => {
      takeOnFullDisk(instance, storage);
      instance.meter = undefined;
      expect(instance.take(FREE).windows.map(({ used }) => used)).toEqual([1, 1]);
    });
  });

  it("in requests while the object breaks again and again", async () => {
    const client = await newClient({ plan: "free" });
    const limiter = env.RATE_LIMITER.getByName(client.id);
    const statuses: number[] = [];
    for (let round = 0; round < 10; round += 1) {
      const requests = Array.from({ length: 10 }, () => client.get("/v1/nowhere"));
      if (round % 2 === 0) await crash(again(limiter));
      statuses.push(...(await Promise.all(requests)).map(({ status }) => status));
      if (round % 2 === 1) await evictDurableObject(again(limiter));
    }
    // Whom the isolate let in alone, while the object was gone, the object counts too; and what was stored ahead of whom
    // it let in quickly is burnt.
    const admitted = statuses.filter((status) => status === 404).length;
    const maxBurnt = RESERVATIONS_ENABLED ? 60 / 20 : 0;
    expect(admitted).toBeLessThanOrEqual(60);
    expect(admitted).toBeGreaterThanOrEqual(60 - maxBurnt);
    expect(statuses.filter((status) => status === 429)).toHaveLength(100 - admitted);
    const { standing } = await again(limiter).usage(FREE);
    expect(standing.windows.map(({ used }) => used)).toEqual([60, 60]);
  });

  it("in requests, one a second, while the object breaks again and again", async () => {
    vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 34));
    const limits = { minute: 40, day: 100 };
    const client = await newClient({ plan: "enterprise", limits });
    const limiter = env.RATE_LIMITER.getByName(client.id);
    const statuses: number[] = [];
    for (let request = 0; request < 50; request += 1) {
      const response = client.get("/v1/nowhere");
      if (request % 6 === 0) await crash(again(limiter));
      statuses.push((await response).status);
      if (request % 6 === 2) await evictDurableObject(again(limiter));
      if (request % 6 === 4) await crash(again(limiter));
      vi.setSystemTime(Date.now() + 1_000);
    }
    expect(statuses).toEqual([...Array(40).fill(404), ...Array(10).fill(429)]);
    const { standing } = await again(limiter).usage(limits);
    expect(standing.windows.map(({ used }) => used)).toEqual([40, 40]);
  });
});

it("what was refused in a burst is still known when the object has been evicted", async () => {
  const limits = { minute: 2, day: 9 };
  const limiter = newLimiter();
  for (let request = 0; request < 7; request += 1) await limiter.take(limits);
  await evictDurableObject(limiter);
  const { standing, days } = await limiter.usage(limits);
  expect(standing.windows.map(({ used, refused }) => [used, refused])).toEqual([
    [2, 5],
    [2, 5],
  ]);
  expect(days).toMatchObject([{ admitted: 2, refused: 5 }]);
});
