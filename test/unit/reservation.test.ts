// What the object of a busy key stores, and what that covers. The simulation has crashes in between.

import { assert, expect, it } from "vitest";
import { acquire } from "../../src/limits/object/acquire.ts";
import { type Quota, unusedQuota } from "../../src/limits/object/quota.ts";
import { Activity, covers, RESERVED_SHARE, reserve, SETTLE_MS } from "../../src/limits/object/reservation.ts";
import type { AcquireRequest } from "../../src/limits/protocol.ts";
import { NO_REQUESTS } from "../support/key-record.ts";

const MINUTE_MS = Date.UTC(2026, 10, 20, 12, 34);
const DAY_MS = 86_400_000;
const UNUSED = unusedQuota({ minute: 60, day: 86_400 });
const LIMITS = { minute: 100, day: 1_000 };

let number = 0;
/** The quota after a call of an isolate. */
function call(quota: Quota, rest: Partial<AcquireRequest> = {}, nowMs = MINUTE_MS, limits = LIMITS): Quota {
  number += 1;
  return acquire(quota, limits, { ...NO_REQUESTS, isolate: "A", number, ...rest }, nowMs).quota;
}
const used = ({ counts }: Quota) => Object.values(counts).map((each) => each.used);

it("a twentieth of the minute's limit is reserved, at most a quarter of what is left, and with 0 nothing", () => {
  const reserved = (requests: number, share = RESERVED_SHARE, limits = LIMITS) => {
    const quota = call(UNUSED, { requests }, MINUTE_MS, limits);
    return (used(reserve(quota, limits, share))[0] ?? 0) - (used(quota)[0] ?? 0);
  };
  expect([0, 1, 80, 84, 88, 96, 97, 100].map((requests) => reserved(requests))).toEqual([
    5, 5, 5, 4, 3, 1, 0, 0,
  ]);
  expect(reserved(1, 0)).toBe(0);
  expect(reserved(1, RESERVED_SHARE, { minute: 100, day: 13 })).toBe(3);
});

/** A quota with a lease of A and a refusal, and what is stored of it. */
function newKey() {
  const quota = call(UNUSED, { requests: 40, recent: 8, wantsLease: true });
  const stored = reserve(quota, LIMITS, RESERVED_SHARE);
  const lease = quota.isolates.get("A")?.lease;
  if (lease === undefined) throw new Error("no lease");
  return { quota, stored, lease };
}

it("requests are covered while they are not more than was reserved, in either window", () => {
  const { quota, stored } = newKey();
  const after = (requests: number) => call(quota, { isolate: "B", requests });
  expect([1, 5, 6].map((requests) => covers(stored, after(requests)))).toEqual([true, true, false]);
  for (const name of ["minute", "day"] as const) {
    const { counts } = after(5);
    const { [name]: count } = counts;
    assert(count);
    const other = { ...after(5), counts: { ...counts, [name]: { ...count, used: count.used + 1 } } };
    expect(covers(stored, other)).toBe(false);
  }
});

it("what has come back of a stored lease can't be used before it is stored: it would come back again", () => {
  const { quota, stored, lease } = newKey();
  const back = call(quota, { lease: { id: lease.id, used: 1, isOver: true } });
  expect([used(back), covers(stored, back)]).toEqual([[41, 41], true]);
  // Of the reservation, the lease's one request is used.
  const after = (requests: number) => call(back, { isolate: "B", requests });
  expect([4, 5].map((requests) => covers(stored, after(requests)))).toEqual([true, false]);
});

it("refusals are covered, but not a ban", () => {
  const { quota, stored } = newKey();
  const refused = { admitted: 0, refusedBy: { minute: 9 }, atMs: MINUTE_MS };
  const after = call(quota, { decisions: [{ number: 99, ...refused }] });
  expect(covers(stored, after)).toBe(true);
  expect(covers(stored, { ...after, bannedUntilMs: MINUTE_MS + 1 })).toBe(false);
});

it("a new minute, a new day, and a late report to an earlier day are not covered", () => {
  const { quota } = newKey();
  for (const endMs of [MINUTE_MS + 60_000, Date.UTC(2026, 10, 21)]) {
    const before = call(UNUSED, { requests: 40 }, endMs - 1);
    const isCovered = (atMs: number) =>
      covers(reserve(before, LIMITS, RESERVED_SHARE), call(before, { isolate: "B", requests: 1 }, atMs));
    expect([endMs - 1, endMs].map(isCovered)).toEqual([true, false]);
  }
  const tomorrow = call(quota, { requests: 1 }, MINUTE_MS + DAY_MS);
  const late = { number: 99, admitted: 0, refusedBy: { minute: 1 }, atMs: MINUTE_MS };
  const reserved = reserve(tomorrow, LIMITS, RESERVED_SHARE);
  const report = (atMs: number) =>
    call(tomorrow, { isolate: "B", decisions: [{ ...late, atMs }] }, MINUTE_MS + DAY_MS);
  const isCovered = (atMs: number) => covers(reserved, report(atMs));
  expect([MINUTE_MS, MINUTE_MS + DAY_MS].map(isCovered)).toEqual([false, true]);
});

it("what is stored has a higher revision than all that it covers, for twenty seconds", () => {
  const { quota, stored } = newKey();
  const next = call(quota, { isolate: "B", requests: 1 }, MINUTE_MS + 19_999);
  expect(covers(stored, next)).toBe(true);
  expect(covers(stored, call(quota, { isolate: "B", requests: 1 }, MINUTE_MS + 20_000))).toBe(false);
  expect(covers(stored, { ...next, revision: stored.revision })).toBe(false);
  // What is stored exactly covers no change.
  expect(covers(quota, { ...quota, revision: quota.revision + 1 })).toBe(false);
});

it("a key is busy from five changes in twenty seconds on, as a moving average", () => {
  const busyAfter = (...gapsMs: number[]) => {
    const activity = new Activity();
    let nowMs = MINUTE_MS;
    for (const gapMs of [0, ...gapsMs]) {
      nowMs += gapMs;
      activity.noteChange(nowMs);
    }
    expect(activity.settlesMs - nowMs).toBe(SETTLE_MS);
    return activity.isBusy;
  };
  expect([busyAfter(), busyAfter(0, 0, 0), busyAfter(0, 0, 0, 0)]).toEqual([false, false, true]);
  expect([4_400, 4_500].map((ms) => busyAfter(...Array<number>(40).fill(ms)))).toEqual([true, false]);
  // A pause, and a clock that steps back.
  expect([1_000, 30_000, -30_000].map((ms) => busyAfter(0, 0, 0, 0, ms))).toEqual([true, false, false]);
});

it("a key is quiet four seconds after its last change, also if the clock has stepped back", () => {
  const activity = new Activity();
  activity.noteChange(MINUTE_MS);
  const isQuiet = [0, 3_999, 4_000, -4_000].map((ms) => activity.isQuiet(MINUTE_MS + ms));
  expect(isQuiet).toEqual([false, false, true, true]);
});
