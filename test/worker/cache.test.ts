// The cache: what it serves fresh, revalidated or stale, what it loads, and what it evicts.

import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { expect, it, vi } from "vitest";
import { Cache, type CacheOptions } from "../../src/lib/cache.ts";
import { pass } from "../support/worker/client.ts";

/** Waits for loads in the background. */
async function settle(): Promise<void> {
  await waitOnExecutionContext(createExecutionContext());
  for (let turn = 0; turn < 3; turn += 1) await scheduler.wait(0);
}

/** A cache whose values count its loads: fresh for 30 s, revalidated after 20 s, stale for another 60 s. */
function newCache(options: Partial<CacheOptions<number | undefined, string>> = {}) {
  const loads: string[] = [];
  const source = { isDown: false };
  const onStale = vi.fn();
  const cache = new Cache<number | undefined, string>({
    async load(key, context, known) {
      loads.push(`${key} for ${context}, known ${known}`);
      if (source.isDown) throw new Error("down");
      return loads.length;
    },
    lifetimeOf: () => ({ freshMs: 30_000, revalidateMs: 20_000, staleIfErrorMs: 60_000 }),
    maxSize: 2,
    onStale,
    ...options,
  });
  return { cache, loads, source, onStale };
}

it("serves a fresh value at once without another load", async () => {
  const { cache, loads } = newCache();
  expect(await cache.get("a", "first")).toBe(1);
  pass(19_999);
  expect(cache.get("a", "second")).toBe(1);
  expect(loads).toEqual(["a for first, known undefined"]);
});

it("revalidates a value in use in the background, and loads an expired value while the request waits", async () => {
  const { cache, loads } = newCache();
  await cache.get("a", "first");
  pass(20_000);
  expect([cache.get("a", "second"), cache.get("a", "third")]).toEqual([1, 1]);
  await settle();
  expect(loads).toEqual(["a for first, known undefined", "a for second, known 1"]);
  expect(cache.get("a", "fourth")).toBe(2);
  // It is fresh for 30 s from the start of its load.
  pass(29_999);
  expect(cache.get("a", "fifth")).toBe(2);
  await settle();
  pass(30_000);
  const loading = cache.get("a", "sixth");
  expect(loading).toBeInstanceOf(Promise);
  expect(await loading).toBe(4);
});

it("counts the age of a value from the start of its load", async () => {
  const { cache, loads } = newCache({
    async load() {
      loads.push("a");
      pass(10_000);
      return loads.length;
    },
  });
  await cache.get("a", "first");
  pass(20_000);
  expect(await cache.get("a", "second")).toBe(2);
});

it("loads a value once for concurrent requests", async () => {
  const { cache, loads } = newCache();
  expect(await Promise.all([cache.get("a", "first"), cache.get("a", "second")])).toEqual([1, 1]);
  expect(loads).toHaveLength(1);
});

it("does not serve a value after the clock was set back", async () => {
  const { cache } = newCache();
  await cache.get("a", "first");
  pass(-1);
  expect(await cache.get("a", "second")).toBe(2);
});

it("serves a stale value while its source fails, until staleIfErrorMs", async () => {
  const { cache, source, onStale } = newCache();
  await cache.get("a", "first");
  source.isDown = true;
  pass(30_000);
  expect(await cache.get("a", "second")).toBe(1);
  expect(onStale).toHaveBeenCalledExactlyOnceWith("second", new Error("down"));
  pass(59_999);
  expect(await cache.get("a", "third")).toBe(1);
  pass(1);
  await expect(cache.get("a", "fourth")).rejects.toThrow("down");
});

it("loads an expired value at once, even if a revalidation has just failed", async () => {
  const { cache, source } = newCache({ failureMs: () => 5_000 });
  await cache.get("a", "first");
  pass(29_999);
  source.isDown = true;
  expect(cache.get("a", "second")).toBe(1);
  await settle();
  source.isDown = false;
  pass(1);
  expect(await cache.get("a", "third")).toBe(3);
});

it("serves no stale value if onStale throws", async () => {
  const { cache, source, onStale } = newCache();
  await cache.get("a", "first");
  source.isDown = true;
  pass(30_000);
  onStale.mockImplementation(() => {
    throw new Error("a bug");
  });
  await expect(cache.get("a", "second")).rejects.toThrow("a bug");
});

it("does not repeat a failed load within failureMs, which may depend on a stale value", async () => {
  const { cache, loads, source } = newCache({ failureMs: (_, isStale) => (isStale ? 5_000 : 0) });
  source.isDown = true;
  for (let times = 0; times < 2; times += 1) await expect(cache.get("a", "first")).rejects.toThrow("down");
  expect(loads).toHaveLength(2);
  source.isDown = false;
  await cache.get("a", "second");
  source.isDown = true;
  pass(30_000);
  for (const [ms, count] of [
    [0, 4],
    [4_999, 4],
    [1, 5],
  ] as const) {
    pass(ms);
    expect(await cache.get("a", "third")).toBe(3);
    expect(loads).toHaveLength(count);
  }
});

it("removes a value whose load returns undefined", async () => {
  let value: number | undefined = 1;
  const { cache } = newCache({ load: async () => value });
  await cache.get("a", "first");
  value = undefined;
  pass(30_000);
  expect(await cache.get("a", "second")).toBeUndefined();
  expect(cache.has("a")).toBe(false);
});

it("evicts the oldest values by their size", async () => {
  const { cache } = newCache({ maxSize: 7, sizeOf: (value) => value ?? 0 });
  for (const key of ["a", "b", "c"]) await cache.get(key, "first");
  expect(["a", "b", "c"].map((key) => cache.has(key))).toEqual([true, true, true]);
  // The fourth value has size 4, so the first two are evicted.
  await cache.get("d", "first");
  expect(["a", "b", "c", "d"].map((key) => cache.has(key))).toEqual([false, false, true, true]);
});

it("keeps a pause while a flood of other keys fails without one", async () => {
  const { cache, loads, source } = newCache({ failureMs: (_, isStale) => (isStale ? 5_000 : 0) });
  await cache.get("a", "first");
  source.isDown = true;
  pass(30_000);
  expect(await cache.get("a", "second")).toBe(1);
  for (let key = 0; key < 1_000; key += 1) await expect(cache.get(`${key}`, "flood")).rejects.toThrow("down");
  const before = loads.length;
  expect(await cache.get("a", "third")).toBe(1);
  expect(loads).toHaveLength(before);
});
