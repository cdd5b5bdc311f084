// The lease that an isolate holds. Times have an arbitrary origin; the object's clock is 5 s behind.

import { expect, it } from "vitest";
import { HeldLease } from "../../src/rate-limit/isolate/held-lease.ts";
import {
  type AcquireRequest,
  type AcquireResult,
  LEASE_MS,
  type Lease,
} from "../../src/rate-limit/protocol.ts";

const MINUTE_MS = 60_000;
const MADE_MS = 95_000;

/** The result of a call, with a lease or without. */
function answer(lease?: Lease): AcquireResult {
  const window = { startMs: MINUTE_MS, used: 0, refused: 0, limit: 100 };
  const status = { revision: 1, windows: { minute: window, day: { ...window, startMs: 0 } } };
  const leased = { minute: 0, day: 0 };
  const result = { ...status, nowMs: MADE_MS, leased, firstRefusalMs: 0, admitted: 0, refused: 0 };
  return { ...result, ...(lease && { lease }) };
}

/** Calls at 100,000 ms; the result comes 20 ms later. */
function call(held: HeldLease, lease?: Partial<Lease>, reported: AcquireRequest["lease"] = held.report) {
  const granted = lease && { id: 1, size: 3, durationMs: 2_000, ...lease };
  return held.apply(reported, answer(granted), 100_000, 100_020);
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

it("a renewed lease goes on from what is used, also of what was used during the call", () => {
  const held = newHeld();
  consume(held, 1);
  const reported = held.report;
  consume(held, 1);
  call(held, { size: 5 }, reported);
  expect([consume(held, 9), held.report]).toEqual([3, { id: 1, used: 5, isOver: true }]);
});

it("an ended lease is reported until the object has acknowledged it, and a new one begins unused", () => {
  const held = newHeld();
  const first = held.report;
  consume(held, 3);
  // A call that did not report the end, and one that did.
  call(held, undefined, first);
  expect(held.report).toEqual({ id: 1, used: 3, isOver: true });
  call(held, { id: 2 });
  expect(held.report).toEqual({ id: 2, used: 0, isOver: false });
});

it("a timer ends a lease, but not one that has been renewed meanwhile", () => {
  const held = new HeldLease();
  const [first, renewed] = [call(held, {}), call(held, { size: 6 })];
  if (first === undefined || renewed === undefined) throw new Error("no lease");
  expect([held.end(first), held.isEnded, held.end(renewed), held.isEnded]).toEqual([
    false,
    false,
    true,
    true,
  ]);
  expect(consume(held, 1)).toBe(0);
});

it("a lease is not held if the clock has stepped back during its call, because its age is unknown", () => {
  const held = new HeldLease();
  held.apply(undefined, answer({ id: 1, size: 3, durationMs: 2_000 }), 100_000, 99_999);
  expect([held.report, consume(held, 1)]).toEqual([undefined, 0]);
});

it("what is left of a lease counts as unused in the windows that it was granted in", () => {
  const held = newHeld();
  consume(held, 1);
  expect([0, MINUTE_MS, MADE_MS, MADE_MS + 1].map((startMs) => held.unused(startMs))).toEqual([2, 2, 2, 0]);
});

it("a lease is due for renewal before its end, or when its rest is for less than a call at the recent rate", () => {
  const held = newHeld({ size: 100 });
  expect([100_100, 101_990].map((ms) => held.isDue(ms, true))).toEqual([false, true]);
  // 1,000 requests in 4 s are 5 in a call of 20 ms.
  for (let request = 0; request < 1_000; request += 1) held.recordArrival(100_000);
  consume(held, 80);
  expect(held.isDue(100_100, true)).toBe(false);
  consume(held, 15);
  expect(held.isDue(100_100, true)).toBe(true);
});

it("recent requests are those of the last LEASE_MS, about; none from before the clock stepped back", () => {
  const fromMs = 10 * LEASE_MS;
  const recentAfter = (ms: number) => {
    const held = new HeldLease();
    for (let request = 0; request < 40; request += 1) held.recordArrival(fromMs + (request * LEASE_MS) / 40);
    return Math.round(held.recent(fromMs + ms));
  };
  expect([1, 1.5, 2].map((periods) => recentAfter(periods * LEASE_MS))).toEqual([40, 20, 0]);
  expect(recentAfter(-1)).toBe(0);
});
