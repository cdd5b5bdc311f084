// The cache: what it serves fresh or revalidated, what it loads, and when it loads again after a failure. Stale values and evictions
// are in test/worker/faults.test.ts and pages.test.ts.

import { beforeEach, expect, it, vi } from "vitest";
import { Cache, type CacheOptions } from "../../src/lib/cache.ts";

beforeEach(() => void vi.useFakeTimers());

/** A cache whose values count its loads: fresh for 30 s, revalidated after 20 s. A load takes `loadMs`. */
function newCache(options: Partial<CacheOptions<number | undefined, string>> = {}, loadMs = 0) {
  const loads: string[] = [];
  const source = { isDown: false };
  const load = async (key: string, context: string) => {
    pass(loadMs);
    loads.push(`${key} for ${context}`);
    if (source.isDown) throw new Error("down");
    return loads.length;
  };
  const cache = new Cache({ load, freshMs: 30_000, revalidateMs: 20_000, maxSize: 10, ...options });
  return { cache, loads, source };
}

/** Advances the clock without running timers. */
const pass = (ms: number) => vi.setSystemTime(Date.now() + ms);

/** Waits for loads in the background, and for requests that share one. */
const settle = () => vi.advanceTimersByTimeAsync(1);

it("revalidates a fresh value in the background, and loads an expired value while the request waits", async () => {
  const { cache, loads } = newCache({}, 1);
  expect(await cache.get("a", "first")).toBe(1);
  pass(19_998);
  expect(await cache.get("a", "second")).toBe(1);
  pass(1);
  expect(await Promise.all([cache.get("a", "third"), cache.get("a", "fourth")])).toEqual([1, 1]);
  await settle();
  expect(loads).toEqual(["a for first", "a for third"]);
  // It is fresh for 30 s from the start of its load.
  pass(29_997);
  expect(await cache.get("a", "fifth")).toBe(2);
  await settle();
  pass(29_998);
  const both = Promise.all([cache.get("a", "sixth"), cache.get("a", "seventh")]);
  await settle();
  expect(await both).toEqual([4, 4]);
  // After the clock was set back, its age is unknown.
  pass(-100);
  expect(await cache.get("a", "eighth")).toBe(5);
});

it("does not repeat a failed load within failureMs, which is 0 by default", async () => {
  const { cache, loads, source } = newCache({ failureMs: 5_000 });
  const { cache: eager, loads: eagerLoads, source: eagerSource } = newCache();
  source.isDown = true;
  eagerSource.isDown = true;
  for (const _ of [1, 2]) await expect(eager.get("a", "first")).rejects.toThrow("down");
  expect(eagerLoads).toHaveLength(2);
  const failed = () => expect(cache.get("a", "first")).rejects.toThrow("down");
  await failed();
  pass(4_999);
  await failed();
  expect(loads).toHaveLength(1);
  pass(1);
  await failed();
  expect(loads).toHaveLength(2);
  // The pause begins again.
  source.isDown = false;
  pass(4_999);
  await failed();
  pass(1);
  expect(await cache.get("a", "second")).toBe(3);
});

it("removes a value whose load returns undefined", async () => {
  const load = vi.fn(async (): Promise<number | undefined> => undefined).mockResolvedValueOnce(1);
  const { cache } = newCache({ load });
  await cache.get("a", "first");
  pass(30_000);
  expect(await cache.get("a", "second")).toBeUndefined();
  expect(cache.has("a")).toBe(false);
});
