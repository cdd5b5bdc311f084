// The lookup throttle: which lookups wait for a slot, and which are refused.

import { beforeEach, describe, expect, it, vi } from "vitest";
import { LookupThrottle } from "../../src/keys/isolate/lookup-throttle.ts";
import { RUNTIME } from "../../src/lib/runtime.ts";

const ADDRESS = "198.18.0.1";
const never = () => new Promise<never>(() => {});
const isFound = (found: unknown) => found !== null;

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2026, 10, 20, 12, 34, 20) });
  return () => vi.useRealTimers();
});

/** A throttle with so many lookups of one address that do not end. */
function newThrottle(lookUps: number, lookUp: () => Promise<unknown> = never) {
  const throttle = new LookupThrottle(RUNTIME);
  for (let index = 0; index < lookUps; index += 1) void throttle.run([ADDRESS], Date.now(), lookUp, isFound);
  return throttle;
}

/** A lookup of the address once it has a slot, and what becomes of it. */
function lookUp(throttle: LookupThrottle, find: () => Promise<unknown> = never, buckets = [ADDRESS]) {
  const look = vi.fn(find);
  const found: { result?: unknown; refusal?: unknown; error?: Error } = {};
  const run = async () => {
    found.refusal = await throttle.awaitSlot(buckets, Date.now(), () => false);
    if (found.refusal === undefined) found.result = await throttle.run(buckets, Date.now(), look, isFound);
  };
  run().catch((error) => Object.assign(found, { error }));
  return { look, found };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe("a lookup beside sixty of the same address", () => {
  it.each([1, null])("waits until one of them ends, and finds its own key: that finds %j", async (found) => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const throttle = newThrottle(59);
    void throttle.run([ADDRESS], Date.now(), () => promise, isFound);
    expect(throttle.hasRoom([ADDRESS], Date.now())).toBe(false);
    const last = lookUp(throttle, async () => 2);
    await pass(1_000);
    expect(last.look).not.toHaveBeenCalled();
    resolve(found);
    await pass(500);
    // The lookup of an unknown key still takes one of the sixty.
    expect(last.found).toEqual(found === null ? {} : { result: 2 });
  });

  it.each([
    [11_999, 12_000],
    [-11_999, -12_000],
  ])("takes the slot of a cancelled one, when the clock has moved not by %i but by %i ms", (...steps) => {
    const throttle = newThrottle(60);
    const startMs = Date.now();
    const looks = steps.map((ms) => {
      vi.setSystemTime(startMs + ms);
      const look = vi.fn(never);
      void throttle.run([ADDRESS], Date.now(), look, isFound);
      return look;
    });
    expect(looks.map((look) => look.mock.calls.length)).toEqual([0, 1]);
  });

  it("is refused as soon as all of them turn out to be of unknown keys", async () => {
    const { promise, resolve } = Promise.withResolvers<null>();
    const { found, look } = lookUp(newThrottle(60, () => promise));
    resolve(null);
    await pass(100);
    expect(found).toMatchObject({ refusal: { admitted: false, windows: { minute: { used: 60 } } } });
    expect(look).not.toHaveBeenCalled();
  });

  it("needs a slot in each of its buckets", async () => {
    const { look } = lookUp(newThrottle(60), never, ["198.18.0.2", ADDRESS]);
    await pass(100);
    expect(look).not.toHaveBeenCalled();
  });

  it("gives up after 2 s, and does not run if another one has taken the slot that it waited for", async () => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const throttle = newThrottle(59);
    void throttle.run([ADDRESS], Date.now(), () => promise, isFound);
    const first = lookUp(throttle);
    await pass(1_000);
    const [second, look] = [lookUp(throttle), vi.fn(never)];
    await pass(999);
    expect(first.found.error).toBe(undefined);
    await pass(1);
    expect(first.found.error).toMatchObject({ name: "DatabaseUnavailable" });
    resolve(1);
    await pass(0);
    void throttle.run([ADDRESS], Date.now(), look, isFound);
    await pass(1_000);
    expect([first, second].map((each) => each.look.mock.calls.length)).toEqual([0, 0]);
    expect([look.mock.calls.length, second.found.error?.name]).toEqual([1, "DatabaseUnavailable"]);
    expect(await throttle.run([ADDRESS], Date.now(), look, isFound)).toBe(undefined);
  });
});

it.each([1, 2, 60])("the end of one of %i lookups frees one slot", async (begun) => {
  const throttle = newThrottle(begun - 1);
  await throttle.run([ADDRESS], Date.now(), async () => 1, isFound);
  const looks = Array.from({ length: 62 - begun }, () => lookUp(throttle).look);
  await pass(0);
  expect(looks.filter((look) => look.mock.calls.length > 0)).toHaveLength(61 - begun);
});

it("a lookup that fails frees its slot, and does not count as an unknown key", async () => {
  const throttle = new LookupThrottle(RUNTIME);
  const fail = () => Promise.reject(new Error("out of order"));
  for (let index = 0; index < 61; index += 1)
    await expect(throttle.run([ADDRESS], Date.now(), fail, isFound)).rejects.toThrow("out of order");
  expect(await throttle.run([ADDRESS], Date.now(), async () => 1, isFound)).toBe(1);
});
