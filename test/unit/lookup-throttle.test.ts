// The lookup throttle: which lookups have a slot, and which are refused. known-keys.test.ts has requests that wait for one.

import { beforeEach, describe, expect, it, vi } from "vitest";
import { RUNTIME } from "../../src/lib/workers-runtime.ts";
import { EVERYWHERE, LookupThrottle, type Verdict } from "../../src/limits/isolate/lookup-throttle.ts";

const ADDRESS = "198.18.0.1";
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 10, 20, 12, 34, 20) }));

/** A throttle with so many lookups of one address that do not end. */
function newThrottle(busy = 0) {
  const throttle = new LookupThrottle(RUNTIME);
  /** Runs a lookup that resolves with its verdict. */
  const run = (lookUp: () => Promise<Verdict>) =>
    throttle.run([ADDRESS], Date.now(), async () => {
      const verdict = await lookUp();
      return [verdict, verdict];
    });
  /** Begins lookups, and counts those that have a slot. */
  const begin = (lookups: number) => {
    const find = vi.fn(() => new Promise<never>(() => {}));
    for (let lookup = 0; lookup < lookups; lookup += 1) void run(find);
    return find.mock.calls.length;
  };
  /** End a lookup each. */
  const ends = Array.from({ length: busy }, () => {
    const { promise, resolve } = Promise.withResolvers<Verdict>();
    void run(() => promise);
    return resolve;
  });
  const hasRoom = (...buckets: string[]) => throttle.hasRoom(buckets, Date.now());
  /** Waits for a slot. Returns what is called with the outcome. */
  const wait = () => {
    const settled = vi.fn();
    void throttle.awaitSlot([ADDRESS], Date.now(), () => false).then(settled, settled);
    return settled;
  };
  return { run, begin, ends, hasRoom, wait };
}

describe("beside sixty lookups of its address, a lookup", () => {
  it.each([
    [11_999, false],
    [12_000, true],
    [-11_999, false],
    [-12_000, true],
  ])(
    "has the slot of one that was cancelled 12 s ago, in either direction of the clock: %i ms",
    (ms, has) => {
      const { hasRoom } = newThrottle(60);
      vi.setSystemTime(Date.now() + ms);
      expect(hasRoom(ADDRESS)).toBe(has);
    },
  );

  it("is refused as soon as all of them turn out to be of unknown keys", async () => {
    const { ends, wait } = newThrottle(60);
    const settled = wait();
    for (const end of ends) end("unknown");
    await pass(100);
    expect(settled.mock.lastCall).toMatchObject([{ admitted: false, windows: { minute: { used: 60 } } }]);
  });

  it("needs a slot in each of its buckets", () => {
    const { hasRoom } = newThrottle(60);
    expect([hasRoom("198.18.0.2", ADDRESS), hasRoom("198.18.0.2")]).toEqual([false, true]);
  });

  it("gives up after 2 s, and does not run without a slot", async () => {
    const { begin, wait } = newThrottle(60);
    const settled = wait();
    await pass(1_999);
    expect([settled.mock.calls, begin(1)]).toEqual([[], 0]);
    await pass(1);
    expect(settled.mock.lastCall).toMatchObject([{ name: "LimiterUnavailable", reason: "lookups" }]);
  });
});

describe("the end of a lookup frees its slot", () => {
  it.each<[Verdict, slots: number]>([
    ["found", 60],
    ["undecided", 59],
    ["unknown", 58],
  ])("alone, and one more if its key was found, none if there is no such key: %s", async (verdict, slots) => {
    const { begin, ends } = newThrottle(2);
    ends[0]?.(verdict);
    await pass(0);
    expect(begin(61)).toBe(slots);
  });

  it("also if it fails, which does not count as an unknown key", async () => {
    const { run, begin } = newThrottle();
    const fail = () => Promise.reject(new Error("out of order"));
    for (let index = 0; index < 60; index += 1) await expect(run(fail)).rejects.toThrow("out of order");
    expect(begin(61)).toBe(60);
  });
});

it("found keys add slots until the minute ends, and none to an address with sixty unknown keys", async () => {
  const { run, begin, hasRoom } = newThrottle();
  for (let key = 0; key < 100; key += 1) await run(async () => "found");
  for (let key = 0; key < 60; key += 1) await run(async () => "unknown");
  expect(hasRoom(ADDRESS)).toBe(false);
  await pass(60_000);
  expect(begin(61)).toBe(60);
});

it("unknown keys of all addresses together are counted too", async () => {
  const { run, hasRoom } = newThrottle();
  for (let key = 0; key < 60; key += 1) await run(async () => "unknown");
  expect([hasRoom("198.18.0.2"), hasRoom("198.18.0.2", EVERYWHERE)]).toEqual([true, false]);
});
