// The lookup throttle: which lookups wait for a slot, and which are refused.

import { beforeEach, describe, expect, it, vi } from "vitest";
import { LookupThrottle, type NoSlot } from "../../src/keys/isolate/lookup-throttle.ts";

const ADDRESS = "198.18.0.1";
const never = () => new Promise<never>(() => {});
const isFound = (found: unknown) => found !== null;

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2026, 10, 20, 12, 34, 20) });
  return () => vi.useRealTimers();
});

/** A throttle with so many lookups of one address that do not end. */
function newThrottle(lookUps: number, lookUp: () => Promise<unknown> = never) {
  const throttle = new LookupThrottle();
  for (let index = 0; index < lookUps; index += 1) void throttle.run([ADDRESS], Date.now(), lookUp, isFound);
  return throttle;
}

/** A lookup of the address, and what becomes of it. */
function lookUp(throttle: LookupThrottle, find: () => Promise<unknown> = never) {
  const look = vi.fn(find);
  const found: { result?: unknown; error?: Record<string, unknown> } = {};
  throttle.run([ADDRESS], Date.now(), look, isFound).then(
    (result) => Object.assign(found, { result }),
    (error) => Object.assign(found, { error }),
  );
  return { look, found };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe("a lookup beside sixty of the same address", () => {
  it.each([1, null])("waits until one of them ends, and finds its own key: that finds %j", async (found) => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    const throttle = newThrottle(59);
    void throttle.run([ADDRESS], Date.now(), () => promise, isFound);
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
      return lookUp(throttle).look;
    });
    expect(looks.map((look) => look.mock.calls.length)).toEqual([0, 1]);
  });

  it("is refused as soon as all of them turn out to be of unknown keys, but no later request is", async () => {
    const { promise, resolve } = Promise.withResolvers<null>();
    const { found } = lookUp(newThrottle(60, () => promise));
    resolve(null);
    await pass(5_000);
    const noSlot = found.error as unknown as NoSlot;
    expect(noSlot).toMatchObject({ buckets: [ADDRESS], refusal: { windows: { minute: { used: 60 } } } });
    expect([0, 1].map((ms) => noSlot.appliesTo([ADDRESS], noSlot.nowMs + ms))).toEqual([true, false]);
  });

  it("needs a slot in each of its buckets", () => {
    const look = vi.fn(never);
    void newThrottle(60).run(["198.18.0.2", ADDRESS], Date.now(), look, isFound);
    expect(look).not.toHaveBeenCalled();
  });

  it("gives up after 2 s", async () => {
    const last = lookUp(newThrottle(60));
    await pass(1_999);
    expect(last.found).toEqual({});
    await pass(1);
    const noSlot = last.found.error as unknown as NoSlot;
    expect(noSlot).toMatchObject({ name: "NoSlot", refusal: undefined });
    expect(last.look).not.toHaveBeenCalled();
    // A request that came later, and waited for the same lookup, has two seconds of its own.
    const laterMs = Date.now() + 1;
    expect(noSlot.appliesTo([ADDRESS], laterMs)).toBe(false);
    await pass(2_000);
    expect(noSlot.appliesTo([ADDRESS], laterMs)).toBe(false);
    await pass(1);
    expect(noSlot.appliesTo([ADDRESS], laterMs)).toBe(true);
    expect(noSlot.appliesTo(["198.18.0.2"], laterMs)).toBe(false);
  });
});

it.each([1, 2, 60])("the end of one of %i lookups frees one slot", async (begun) => {
  const throttle = newThrottle(begun - 1);
  await throttle.run([ADDRESS], Date.now(), async () => 1, isFound);
  const looks = Array.from({ length: 62 - begun }, () => lookUp(throttle).look);
  expect(looks.filter((look) => look.mock.calls.length > 0)).toHaveLength(61 - begun);
});

it("a lookup that fails frees its slot, and does not count as an unknown key", async () => {
  const throttle = new LookupThrottle();
  const fail = () => Promise.reject(new Error("out of order"));
  for (let index = 0; index < 61; index += 1)
    await expect(throttle.run([ADDRESS], Date.now(), fail, isFound)).rejects.toThrow("out of order");
  expect(await throttle.run([ADDRESS], Date.now(), async () => 1, isFound)).toBe(1);
});
