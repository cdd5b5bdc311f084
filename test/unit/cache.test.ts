// The cache: what it serves fresh or revalidated, what it loads, and when it loads again after a failure. Evictions are in
// test/worker/pages.test.ts.

import { beforeEach, expect, it, vi } from "vitest";
import { Cache, type CacheOptions } from "../../src/lib/cache.ts";
import { RUNTIME } from "../../src/lib/workers-runtime.ts";

beforeEach(() => void vi.useFakeTimers());

/** A cache whose values count its loads, and which is fresh for 30 s, revalidated after 20 s. A load takes 1 ms. */
function newCache(options: Partial<CacheOptions<number | undefined, string>> = {}) {
  const loads: string[] = [];
  const source = { isDown: false };
  const load = async (_: string, context: string) => {
    pass(1);
    loads.push(context);
    if (source.isDown) throw new Error("down");
    return loads.length;
  };
  const times = { freshMs: 30_000, revalidateMs: 20_000 };
  const cache = new Cache({ runtime: RUNTIME, load, ...times, maxSize: 10, ...options });
  return { loads, source, get: (context: string) => cache.get("name", context), cache };
}

/** Advances the clock without running timers. */
const pass = (ms: number) => vi.setSystemTime(Date.now() + ms);

/** Waits for loads in the background, and for requests that share one. */
const settle = () => vi.advanceTimersByTimeAsync(1);

it("revalidates a fresh value in the background, and loads an expired value while the request waits", async () => {
  const { loads, get } = newCache();
  expect(await get("first")).toBe(1);
  pass(19_998);
  expect(await get("second")).toBe(1);
  pass(1);
  expect(await Promise.all([get("third"), get("fourth")])).toEqual([1, 1]);
  await settle();
  expect(loads).toEqual(["first", "third"]);
  // It is fresh for 30 s from the start of its load.
  pass(29_997);
  expect(await get("fifth")).toBe(2);
  await settle();
  pass(29_998);
  const both = Promise.all([get("sixth"), get("seventh")]);
  await settle();
  expect(await both).toEqual([4, 4]);
  // After the clock was set back, its age is unknown.
  pass(-100);
  expect(await get("eighth")).toBe(5);
});

it.each([
  [5_000, [1, 1, 2, 2, 3]],
  [undefined, [1, 2, 3, 4, 5]],
])("does not repeat a failed load within failureMs: %s", async (failureMs, expected) => {
  const { loads, source, get } = newCache(failureMs === undefined ? {} : { failureMs });
  source.isDown = true;
  const made: number[] = [];
  for (const ms of [0, 4_999, 1, 4_999, 1]) {
    pass(ms);
    await expect(get("")).rejects.toThrow("down");
    made.push(loads.length);
  }
  expect(made).toEqual(expected);
});

it("removes a value whose load returns undefined", async () => {
  const load = vi.fn(async (): Promise<number | undefined> => undefined).mockResolvedValueOnce(1);
  const { cache, get } = newCache({ load });
  await get("first");
  pass(30_000);
  expect(await get("second")).toBeUndefined();
  expect(cache.has("name")).toBe(false);
});
