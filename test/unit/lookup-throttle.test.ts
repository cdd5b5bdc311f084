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
  it("waits until one of them ends, and finds its own key", async () => {
    const { throttle, all, wait } = newThrottle(60);
    expect(throttle.hasRoom([ADDRESS], Date.now())).toBe(false);
    const last = wait(async () => 2);
    await pass(1_000);
    expect(last.look).not.toHaveBeenCalled();
    all[0]?.(1);
    await pass(500);
    expect(last.found).toEqual({ result: 2 });
  });

  it("takes the slot of one that was cancelled 12 s ago, in either direction of the clock", () => {
    const startMs = Date.now();
    const isRun = (ms: number) => {
      const { run } = newThrottle(60);
      vi.setSystemTime(startMs + ms);
      const look = vi.fn(never);
      void run(look);
      vi.setSystemTime(startMs);
      return look.mock.calls.length === 1;
    };
    expect([11_999, 12_000, -11_999, -12_000].map(isRun)).toEqual([false, true, false, true]);
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

it("the end of the only lookup frees one slot", async () => {
  const { all, wait } = newThrottle(1);
  all[0]?.(1);
  await pass(0);
  const looks = Array.from({ length: 61 }, () => wait().look);
  await pass(0);
  expect(looks.filter((look) => look.mock.calls.length > 0)).toHaveLength(60);
});

it("a lookup that fails frees its slot, and does not count as an unknown key", async () => {
  const { run } = newThrottle();
  const fail = () => Promise.reject(new Error("out of order"));
  for (let index = 0; index < 61; index += 1) await expect(run(fail)).rejects.toThrow("out of order");
  expect(await run(async () => 1)).toBe(1);
});
