// The Durable Object that counts a key, alone and through the front door.

import { abortAllDurableObjects, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import type { RateLimiter } from "../src/index.ts";
import { UNUSED_METER } from "../src/rate-limit/meter.ts";
import { RESERVATIONS_ENABLED } from "../src/rate-limit/reservation.ts";
import { remaining } from "../src/rate-limit/window.ts";
import { type ErrorBody, newClient } from "./client.ts";
import { crash } from "./crash.ts";

const FREE = { minute: 60, day: 1_000 };

const newName = () => `key-${crypto.randomUUID()}`;

/** Lets a second pass: a key that is used no more often is slow, and stored with every request. */
function passSecond(): void {
  vi.setSystemTime(Date.now() + 1_000);
}

/** The rows that each statement has written which an object runs from now on. */
function watchRows({ sql }: DurableObjectStorage): () => number[] {
  const exec = vi.spyOn(sql, "exec");
  return () => exec.mock.results.map(({ value }) => (value as SqlStorageCursor<never>).rowsWritten);
}

it("admits exactly 60 of 200 requests at once on a Free key, each with a Remaining of its own", async () => {
  const client = await newClient({ plan: "free" });
  const responses = await Promise.all(Array.from({ length: 200 }, () => client.get("/v1/pets")));
  const admitted = responses.filter(({ status }) => status === 200);
  const refused = responses.filter(({ status }) => status === 429);
  expect([admitted.length, refused.length]).toEqual([60, 140]);

  const left = admitted.map(({ headers }) => Number(headers.get("X-RateLimit-Remaining")));
  // 60 admitted could still share numbers if two were decided on the same count.
  expect(left.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, index) => index));
  for (const { headers } of refused) expect(headers.get("X-RateLimit-Remaining")).toBe("0");
});

it("consumes nothing when it refuses", async () => {
  const limiter = env.RATE_LIMITER.getByName(newName());
  const limits = { minute: 2, day: 5 };
  for (let request = 0; request < 10; request += 1) await limiter.take(limits);
  vi.setSystemTime(Date.now() + 60_000);
  const { admitted, windows } = await limiter.take(limits);
  expect(admitted).toBe(true);
  // The eight that were refused must not show in the day.
  expect(windows.map(remaining)).toEqual([1, 2]);
});

it("goes on counting after eviction, from storage and not from memory", async () => {
  const limiter = env.RATE_LIMITER.getByName(newName());
  for (let request = 0; request < 3; request += 1) {
    await limiter.take(FREE);
    passSecond();
  }
  await runInDurableObject(limiter, (instance: RateLimiter) => {
    const meter = instance.meter ?? UNUSED_METER;
    instance.meter = { ...meter, windows: meter.windows.map((window) => ({ ...window, used: 59 })) };
  });
  await evictDurableObject(limiter);
  const { windows } = await limiter.take(FREE);
  // The starts too: a day that began with the minute would end late.
  expect(windows).toEqual([
    { name: "minute", limit: 60, startMs: Date.UTC(2026, 10, 20, 12, 34), used: 4, refused: 0 },
    { name: "day", limit: 1_000, startMs: Date.UTC(2026, 10, 20), used: 4, refused: 0 },
  ]);
});

it("goes on counting after a crash", async () => {
  const name = newName();
  for (let request = 0; request < 60; request += 1) await env.RATE_LIMITER.getByName(name).take(FREE);
  await abortAllDurableObjects();
  const { admitted, windows } = await env.RATE_LIMITER.getByName(name).take(FREE);
  expect([admitted, ...windows.map(({ used }) => used)]).toEqual([false, 60, 60]);
});

it("burns nothing of a slow key and at most a twentieth of a fast one, in all that happens to it within a window", async () => {
  const limits = { minute: 100, day: 1_000 };
  for (const [stepMs, share] of [
    [1_000, 0],
    [0, RESERVATIONS_ENABLED ? 20 : 0],
  ] as const) {
    const name = newName();
    let admitted = 0;
    for (let life = 0; life < 10; life += 1) {
      const limiter = env.RATE_LIMITER.getByName(name);
      for (let request = 0; request < 2; request += 1) {
        if ((await limiter.take(limits)).admitted) admitted += 1;
        vi.setSystemTime(Date.now() + stepMs);
      }
      if (life % 2 === 0) await evictDurableObject(limiter);
      else await crash(limiter);
    }
    expect(admitted).toBe(20);
    const { windows } = (await env.RATE_LIMITER.getByName(name).usage(limits)).standing;
    const burnt = windows.map(({ used }) => used - admitted);
    // As much as may be burnt, or less would have been put to the test.
    expect(burnt).toEqual(share === 0 ? [0, 0] : [limits.minute / share, limits.minute / share]);
  }
});

it("has never less stored than it let in, and at most a twentieth more", async () => {
  const limits = { minute: 100, day: 1_000 };
  await runInDurableObject(env.RATE_LIMITER.getByName(newName()), (instance: RateLimiter, { storage }) => {
    const ahead: unknown[] = [];
    for (let request = 1; request <= 100; request += 1) {
      expect(instance.take(limits).admitted).toBe(true);
      const stored = storage.sql.exec("SELECT minute_used - ?1 AS m, day_used - ?1 AS d FROM days", request);
      const { m, d } = stored.one();
      expect(d).toBe(m);
      ahead.push(m);
    }
    expect(instance.take(limits).admitted).toBe(false);
    const most = RESERVATIONS_ENABLED ? 5 : 0;
    expect([Math.min(...(ahead as number[])), Math.max(...(ahead as number[]))]).toEqual([0, most]);
  });
});

it("writes one row for each request of a slow key, admitted or refused", async () => {
  const limiter = env.RATE_LIMITER.getByName(newName());
  const limits = { minute: 3, day: 9 };
  await limiter.take(limits);
  await runInDurableObject(limiter, (instance: RateLimiter, { storage }) => {
    const written = watchRows(storage);
    for (let request = 0; request < 2 + 30; request += 1) {
      passSecond();
      instance.take(limits);
    }
    expect(written()).toEqual(Array(2 + 30).fill(1));
    vi.restoreAllMocks();
    // All of them went into the same row.
    expect(storage.sql.exec("SELECT minute_used, day_used, day_refused FROM days").toArray()).toEqual([
      { minute_used: 3, day_used: 3, day_refused: 30 },
    ]);
  });
});

it("writes fewer rows than a fast key has admitted requests, one for each refused one, and none during a ban", async () => {
  const limiter = env.RATE_LIMITER.getByName(newName());
  const limits = { minute: 60, day: 90 };
  await limiter.take(limits);
  await runInDurableObject(limiter, (instance: RateLimiter, { storage }) => {
    const written = watchRows(storage);
    for (let request = 0; request < 59; request += 1) instance.take(limits);
    // Ahead are 1, and from then on 3: a twentieth.
    expect(written()).toEqual(Array(RESERVATIONS_ENABLED ? 16 : 59).fill(1));
    for (let request = 0; request < 60; request += 1) instance.take(limits);
    const before = written().length;
    expect(before).toBe((RESERVATIONS_ENABLED ? 16 : 59) + 60);
    // The ban is stored, and all that is known with it.
    expect(instance.take(limits).bannedUntilMs).toBe(Date.now() + 600_000);
    for (let request = 0; request < 10; request += 1) instance.take(limits);
    expect(written().slice(before)).toEqual([1]);
    vi.restoreAllMocks();
    expect(storage.sql.exec("SELECT minute_used, day_used, day_refused FROM days").toArray()).toEqual([
      { minute_used: 60, day_used: 60, day_refused: 61 },
    ]);
  });
});

it("writes one row on the first request of a day too, however many days there were before", async () => {
  await runInDurableObject(env.RATE_LIMITER.getByName(newName()), (instance: RateLimiter, { storage }) => {
    instance.take(FREE);
    const exec = vi.spyOn(storage.sql, "exec");
    for (let day = 0; day < 65; day += 1) {
      vi.setSystemTime(Date.now() + 86_400_000);
      instance.take(FREE);
    }
    const written = exec.mock.results.map(({ value }) => (value as SqlStorageCursor<never>).rowsWritten);
    expect(written).toEqual(Array(65).fill(1));
  });
});

it("keeps the counts when the plan changes", async () => {
  const limiter = env.RATE_LIMITER.getByName(newName());
  for (let request = 0; request < 60; request += 1) await limiter.take(FREE);
  expect((await limiter.take(FREE)).admitted).toBe(false);
  const upgraded = await limiter.take({ minute: 300, day: 10_000 });
  expect([upgraded.admitted, ...upgraded.windows.map(remaining)]).toEqual([true, 239, 9_939]);
  const downgraded = await limiter.take(FREE);
  expect([downgraded.admitted, ...downgraded.windows.map(remaining)]).toEqual([false, 0, 939]);
});

it("counts each key by itself", async () => {
  const [one, other] = await Promise.all([newClient({ plan: "free" }), newClient({ plan: "free" })]);
  await one.get("/v1/pets");
  await one.get("/v1/pets");
  const { headers } = await other.get("/v1/pets");
  expect(headers.get("X-RateLimit-Remaining")).toBe("59");
});

it("refuses with 429 until the minute is over, and says which window and when", async () => {
  const client = await newClient({ plan: "enterprise", limits: { minute: 2, day: 100 } });
  await client.get("/v1/pets");
  await client.get("/v1/pets");
  const refused = await client.get("/v1/pets");
  expect(refused.status).toBe(429);
  expect(await refused.json<ErrorBody>()).toEqual({
    code: "rate_limit_exceeded",
    message: "all 2 requests per minute are used up; retry in 40 s, at 2026-11-20T12:35:00Z",
    status: 429,
  });
  expect(refused.headers.get("Retry-After")).toBe("40");
  expect(refused.headers.get("Cache-Control")).toBe("no-store");
  expect(refused.headers.get("X-RateLimit-Reset")).toBe(`${Date.UTC(2026, 10, 20, 12, 35) / 1000}`);

  vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35) - 1);
  expect((await client.get("/v1/pets")).status).toBe(429);
  vi.setSystemTime(Date.UTC(2026, 10, 20, 12, 35));
  expect((await client.get("/v1/pets")).status).toBe(200);
});

it("refuses with 429 until the day is over when the day is used up", async () => {
  const client = await newClient({ plan: "enterprise", limits: { minute: 5, day: 2 } });
  await client.get("/v1/pets");
  await client.get("/v1/pets");
  const refused = await client.get("/v1/pets");
  const { message } = await refused.json<ErrorBody>();
  expect(message).toBe("all 2 requests per day are used up; retry in 41140 s, at 2026-11-21T00:00:00Z");
  expect(refused.headers.get("X-RateLimit-Limit")).toBe("2");
  expect(refused.headers.get("X-RateLimit-Reset")).toBe(`${Date.UTC(2026, 10, 21) / 1000}`);
  vi.setSystemTime(Date.UTC(2026, 10, 21));
  expect((await client.get("/v1/pets")).status).toBe(200);
});
