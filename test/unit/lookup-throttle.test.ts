// The lookup throttle: which lookups wait for a slot, and which are refused.

import { beforeEach, describe, expect, it, vi } from "vitest";
import { LookupThrottle } from "../../src/keys/isolate/lookup-throttle.ts";
import { RUNTIME } from "../../src/lib/runtime.ts";

const ADDRESS = "198.18.0.1";
const never = () => new Promise<never>(() => {});
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 10, 20, 12, 34, 20) }));

/** A throttle with so many lookups of one address that do not end. */
function newThrottle(busy = 0) {
  const throttle = new LookupThrottle(RUNTIME);
  /** Runs a lookup of a key, which does not exist if the lookup finds null. */
  const run = (find: () => Promise<unknown>, buckets = [ADDRESS]) =>
    throttle.run(buckets, Date.now(), find, (found) => found !== null);
  /** A lookup that ends when `resolve` is called. */
  const begin = () => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    void run(() => promise);
    return resolve;
  };
  const all = Array.from({ length: busy }, begin);
  /** A lookup once it has a slot, and what becomes of it. */
  const wait = (find: () => Promise<unknown> = never, buckets = [ADDRESS]) => {
    const look = vi.fn(find);
    const found: { result?: unknown; refusal?: unknown; error?: Error } = {};
    const work = async () => {
      found.refusal = await throttle.awaitSlot(buckets, Date.now(), () => false);
      if (found.refusal === undefined) found.result = await run(look, buckets);
    };
    work().catch((error) => Object.assign(found, { error }));
    return { look, found };
  };
  return { throttle, run, all, wait };
}

describe("a lookup beside sixty of the same address", () => {
  it.each([1, null])("waits until one of them ends, and finds its own key: that finds %j", async (found) => {
    const { throttle, all, wait } = newThrottle(60);
    expect(throttle.hasRoom([ADDRESS], Date.now())).toBe(false);
    const last = wait(async () => 2);
    await pass(1_000);
    expect(last.look).not.toHaveBeenCalled();
    all[0]?.(found);
    await pass(500);
    // The lookup of an unknown key still takes one of the sixty.
    expect(last.found).toEqual(found === null ? {} : { result: 2 });
  });

  it.each([
    [11_999, 12_000],
    [-11_999, -12_000],
  ])("takes the slot of a cancelled one, when the clock has moved not by %i but by %i ms", (...steps) => {
    const { run } = newThrottle(60);
    const startMs = Date.now();
    const look = vi.fn(never);
    const looked = steps.map((ms) => {
      vi.setSystemTime(startMs + ms);
      void run(look);
      return look.mock.calls.length;
    });
    expect(looked).toEqual([0, 1]);
  });

  it("is refused as soon as all of them turn out to be of unknown keys", async () => {
    const { all, wait } = newThrottle(60);
    const { found, look } = wait();
    for (const end of all) end(null);
    await pass(100);
    expect(found).toMatchObject({ refusal: { admitted: false, windows: { minute: { used: 60 } } } });
    expect(look).not.toHaveBeenCalled();
  });

  it("needs a slot in each of its buckets", async () => {
    const { look } = newThrottle(60).wait(never, ["198.18.0.2", ADDRESS]);
    await pass(100);
    expect(look).not.toHaveBeenCalled();
  });

  it("gives up after 2 s, and does not run if another one has taken the slot that it waited for", async () => {
    const { run, all, wait } = newThrottle(60);
    const first = wait();
    await pass(1_000);
    const [second, other] = [wait(), vi.fn(never)];
    await pass(999);
    expect(first.found.error).toBe(undefined);
    await pass(1);
    all[0]?.(1);
    await pass(0);
    void run(other);
    await pass(1_000);
    expect([first, second].map(({ found }) => found.error?.name)).toEqual(
      Array(2).fill("DatabaseUnavailable"),
    );
    expect([first.look, second.look, other].map((look) => look.mock.calls.length)).toEqual([0, 0, 1]);
    expect(await run(other)).toBe(undefined);
  });
});

it.each([1, 2])("the end of one of %i lookups frees one slot", async (begun) => {
  const { all, wait } = newThrottle(begun);
  all[0]?.(1);
  await pass(0);
  const looks = Array.from({ length: 62 - begun }, () => wait().look);
  await pass(0);
  expect(looks.filter((look) => look.mock.calls.length > 0)).toHaveLength(61 - begun);
});

it("a lookup that fails frees its slot, and does not count as an unknown key", async () => {
  const { run } = newThrottle();
  const fail = () => Promise.reject(new Error("out of order"));
  for (let index = 0; index < 61; index += 1) await expect(run(fail)).rejects.toThrow("out of order");
  expect(await run(async () => 1)).toBe(1);
});
