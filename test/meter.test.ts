// What a take does to a meter, where the model does not go: reports, and plans that change between requests.

import { expect, it } from "vitest";
import { decide, type Meter, type Take, UNUSED_METER } from "../src/rate-limit/meter.ts";
import type { Limits } from "../src/rate-limit/window.ts";

const FREE = { minute: 60, day: 1_000 };

let takes = 0;

/** A take, which may report others. */
function take(unreported: Take["unreported"] = [], bannedUntilMs = 0): Take {
  takes += 1;
  return { id: `${takes}`.padStart(10, "0"), unreported, bannedUntilMs };
}

/** The meter after so many requests at once. */
function after(requests: number, limits: Limits): Meter {
  let meter = UNUSED_METER;
  for (let request = 0; request < requests; request += 1)
    ({ meter } = decide(meter, limits, take(), Date.now()));
  return meter;
}

it("what is reported counts in the minute that it fell into, to the millisecond", () => {
  const minuteMs = Date.UTC(2026, 10, 20, 12, 34);
  const unreported = [
    { id: "before0000", atMs: minuteMs - 1 },
    { id: "within0000", atMs: minuteMs },
  ];
  const { windows } = decide(UNUSED_METER, FREE, take(unreported), Date.now()).verdict;
  expect(windows.map(({ used }) => used)).toEqual([2, 3]);
});

it("a take that was reported is known as one that was let in, should it come late", () => {
  const late = take();
  const { meter } = decide(UNUSED_METER, FREE, take([{ id: late.id, atMs: Date.now() }]), Date.now());
  const again = decide(meter, FREE, late, Date.now());
  expect([again.verdict.admitted, again.meter]).toEqual([true, meter]);
});

it("a take that was refused here, and let in by an isolate that could not know, counts", () => {
  const limits = { minute: 1, day: 9 };
  const refused = take();
  const { meter } = decide(after(1, limits), limits, refused, Date.now());
  const report = take([{ id: refused.id, atMs: Date.now() }]);
  const { windows } = decide(meter, limits, report, Date.now()).meter;
  expect(windows.map(({ used }) => used)).toEqual([2, 2]);
});

it("what is reported during a ban counts", () => {
  const limits = { minute: 1, day: 9 };
  const banned = after(1 + 61, limits);
  const { verdict, meter } = decide(
    banned,
    limits,
    take([{ id: "elsewhere0", atMs: Date.now() }]),
    Date.now(),
  );
  expect(verdict.bannedUntilMs).toBe(Date.now() + 600_000);
  expect(meter.windows.map(({ used, refused }) => [used, refused])).toEqual([
    [2, 61],
    [2, 61],
  ]);
});

it("a ban that was decided elsewhere holds from then on, and makes no other one shorter", () => {
  const untilMs = Date.now() + 60_000;
  const { verdict, meter } = decide(UNUSED_METER, FREE, take([], untilMs), Date.now());
  expect([verdict.admitted, verdict.bannedUntilMs]).toEqual([false, untilMs]);
  expect(decide(meter, FREE, take([], untilMs - 1), Date.now()).meter).toBe(meter);
  expect(decide(meter, FREE, take(), untilMs).verdict.admitted).toBe(true);
});

it("nobody who is let in is banned, though a smaller plan tolerates fewer refusals", () => {
  const { verdict } = decide(after(1 + 100, { minute: 100, day: 1 }), FREE, take(), Date.now());
  expect([verdict.admitted, verdict.bannedUntilMs]).toEqual([true, undefined]);
});

it("a take of many requests that an object of an earlier version has counted as one is answered for that one", () => {
  const id = "0123456789";
  const meter = { ...UNUSED_METER, recentTakes: `+${id}` };
  const many = { id, requests: 50, unreported: [], bannedUntilMs: 0 };
  const { verdict } = decide(meter, FREE, many, Date.now());
  // Nothing is said of the others: they ask again.
  expect([verdict.admitted, verdict.admissions]).toEqual([true, undefined]);
  const report = { ...take(), unreported: [{ id, atMs: Date.now(), requests: 5 }] };
  expect(decide(meter, FREE, report, Date.now()).verdict.windows.map(({ used }) => used)).toEqual([5, 5]);
});

it("a ban that an isolate reports whose clock is days ahead is no longer than any other", () => {
  const { meter } = decide(UNUSED_METER, FREE, take([], Date.now() + 3 * 86_400_000), Date.now());
  expect(meter.bannedUntilMs).toBe(Date.now() + 600_000);
});
