// The lease that an isolate holds. Times have an arbitrary origin; the object's clock is 5 s behind.

import { expect, it } from "vitest";
import { HeldLease } from "../../src/keys/isolate/held-lease.ts";
import { LEASE_MS, type Lease } from "../../src/keys/protocol.ts";

const MINUTE_MS = 60_000;
const MADE_MS = 95_000;

/** Calls at 100,000 ms; the result comes 20 ms later. */
function call(held: HeldLease, lease?: Partial<Lease>) {
  const granted = lease && { id: 1, size: 3, durationMs: 2_000, grantedMs: MADE_MS, ...lease };
  return held.apply(held.report, granted, 100_000, 100_020);
}

function newHeld(lease: Partial<Lease> = {}): HeldLease {
  const held = new HeldLease();
  call(held, lease);
  return held;
}

const consume = (held: HeldLease, times: number, nowMs = 100_100, minuteMs = MINUTE_MS) =>
  Array.from({ length: times }, () => held.consume(nowMs, minuteMs)).filter((isUsed) => isUsed).length;

it("a lease admits its size, in the time from before its call to its end, and in its minute, also if a clock steps", () => {
  const used = (nowMs: number, minuteMs?: number) => {
    const held = newHeld();
    return [consume(held, 9, nowMs, minuteMs), held.report];
  };
  const all = [3, { id: 1, used: 3, isOver: true }];
  const none = [0, { id: 1, used: 0, isOver: true }];
  expect([used(100_000), used(101_999)]).toEqual([all, all]);
  expect([used(99_999), used(102_000), used(100_100, 2 * MINUTE_MS)]).toEqual([none, none, none]);
});

it("a timer ends a lease, but not one that has been renewed meanwhile", () => {
  const held = new HeldLease();
  const ends = [call(held, {}), call(held, { size: 6 })].map((lease) => lease && held.end(lease));
  expect([ends, held.isEnded]).toEqual([[false, true], true]);
  expect(consume(held, 1)).toBe(0);
});

it("a lease is not held if the clock has stepped back during its call, because its age is unknown", () => {
  const held = new HeldLease();
  held.apply(undefined, { id: 1, size: 3, durationMs: 2_000, grantedMs: MADE_MS }, 100_000, 99_999);
  expect([held.report, consume(held, 1)]).toEqual([undefined, 0]);
});

it("what is left of a lease counts as unused in the windows that it was granted in", () => {
  const held = newHeld();
  consume(held, 1);
  expect([0, MINUTE_MS, MADE_MS, MADE_MS + 1].map((startMs) => held.unused(startMs))).toEqual([2, 2, 2, 0]);
});

it("a lease is due for renewal before its end, earlier without a timer, or when most of it is used, until a call does not renew it", () => {
  const held = newHeld({ size: 100 });
  const isDue = (hasTimer: boolean) => [100_100, 101_600, 101_990].map((ms) => held.isDue(ms, hasTimer));
  expect([isDue(true), isDue(false)]).toEqual([
    [false, false, true],
    [false, true, true],
  ]);
  consume(held, 90);
  expect(isDue(true)).toEqual([true, true, true]);
  call(held, undefined);
  expect(isDue(false)).toEqual([false, false, false]);
  // Renewed: again it has 100.
  call(held, { size: 190 });
  expect(isDue(true)).toEqual([false, false, true]);
});

it("a lease that the object has granted instead of one that it has forgotten begins unused", () => {
  const held = newHeld();
  consume(held, 2);
  call(held, { id: 7, size: 2 });
  expect([consume(held, 9), held.report]).toEqual([2, { id: 7, used: 2, isOver: true }]);
});

it("the average of recent requests approaches those of LEASE_MS, forgets a burst soon, and survives a step of the clock", () => {
  const fromMs = 10 * LEASE_MS;
  const held = new HeldLease();
  held.recordArrival(0);
  expect(held.recent(0)).toBe(1);
  for (let request = 0; request < 200; request += 1) held.recordArrival(fromMs + (request * LEASE_MS) / 40);
  // 40, but for the share of those that are older than five times LEASE_MS.
  expect(Math.round(held.recent(fromMs + 5 * LEASE_MS))).toBe(39);
  const later = [6, 15, -1_000].map((periods) => held.recent(fromMs + periods * LEASE_MS));
  expect(later.map((each) => each < 20)).toEqual([true, true, true]);
});
