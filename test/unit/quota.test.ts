// acquire and release on a quota: compared with a short reference, and the rules of leases, retries and reports.

import fc from "fast-check";
import { expect, it } from "vitest";
import {
  acquire,
  banEndMs,
  type Quota,
  reconcile,
  rollOver,
  UNUSED_QUOTA,
} from "../../src/rate-limit/object/quota.ts";
import type { AcquireRequest, AcquireResult, DayTotals, Report } from "../../src/rate-limit/protocol.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";

const DAY_MS = 86_400_000;
const MINUTE_MS = Date.UTC(2026, 10, 20, 12, 34);
const MIDNIGHT_MS = Date.UTC(2026, 10, 21);

const NOTHING: Report = { released: [], outbox: [], bannedUntilMs: 0, bansLiftedUntilMs: 0 };
const LONG = { size: 1_000, durationMs: 10_000 };

/** A key's quota; the test moves its clock. */
function newKey(limits: Limits, nowMs = MINUTE_MS) {
  let batches = 0;
  let quota: Quota = UNUSED_QUOTA;
  const key = {
    limits,
    nowMs,
    acquire(requests: number, rest: Partial<AcquireRequest> = {}): AcquireResult {
      batches += 1;
      const request = { id: `batch ${batches}`, requests, waitedMs: 0, ...NOTHING, ...rest };
      const next = acquire(quota, key.limits, request, key.nowMs);
      // The object stores changes only.
      if (next.quota.revision !== quota.revision) ({ quota } = next);
      return next.result;
    },
    release(report: Partial<Report>): void {
      const current = rollOver(quota, key.limits, key.nowMs);
      quota = reconcile(current, { ...NOTHING, ...report }, key.nowMs);
    },
    get quota(): Quota {
      return quota;
    },
    /** The counts of minute and day. */
    get used(): number[] {
      return [quota.counts.minute.used, quota.counts.day.used];
    },
  };
  return key;
}

/** A simple implementation of a quota without leases. */
class Reference {
  minute = { number: 0, used: 0, firstRefusalMs: 0, late: 0, maxLimit: 0 };
  day = 0;
  days = new Map<number, DayTotals>();
  bannedUntilMs = 0;

  /** Returns the number of admitted requests. */
  acquire(limits: Limits, requests: number, waitedMs: number, nowMs: number, liftedMs: number): number {
    if (this.bannedUntilMs > 0 && this.bannedUntilMs <= liftedMs) {
      this.bannedUntilMs = 0;
      this.minute.late = 0;
    }
    const number = Math.floor(nowMs / 60_000);
    let admitted = 0;
    for (let request = 0; request < requests && nowMs >= this.bannedUntilMs; request += 1) {
      if (number > this.minute.number)
        this.minute = { number, used: 0, firstRefusalMs: 0, late: 0, maxLimit: 0 };
      const { minute } = this;
      this.day = Math.max(this.day, nowMs - (nowMs % DAY_MS));
      const today = this.days.get(this.day) ?? { startMs: this.day, admitted: 0, refused: 0 };
      this.days.set(this.day, today);
      minute.maxLimit = Math.max(minute.maxLimit, limits.minute);
      if (minute.used < limits.minute && today.admitted < limits.day) {
        admitted += 1;
        minute.used += 1;
        today.admitted += 1;
        continue;
      }
      today.refused += 1;
      if (minute.firstRefusalMs === 0) minute.firstRefusalMs = nowMs;
      else if (nowMs - waitedMs > minute.firstRefusalMs + 2_000) minute.late += 1;
      if (minute.late > Math.max(180, 3 * minute.maxLimit))
        this.bannedUntilMs = Math.ceil((nowMs + 600_000) / 1_000) * 1_000;
    }
    return admitted;
  }
}

/** Small limits, and limits for which three times the limit is about the number of tolerated refusals. */
const limitsArbitrary: fc.Arbitrary<Limits> = fc.oneof(
  fc.record({ minute: fc.integer({ min: 1, max: 5 }), day: fc.integer({ min: 1, max: 30 }) }),
  fc.record({ minute: fc.integer({ min: 55, max: 70 }), day: fc.integer({ min: 60, max: 300 }) }),
);

const stepArbitrary = fc.record({
  passMs: fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(0, 1, 1_000, 2_000, 2_001) },
    { weight: 2, arbitrary: fc.constantFrom(59_999, 60_000, 599_999, 600_000, DAY_MS) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 60_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: -90_000, max: 0 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 40 * DAY_MS }) },
  ),
  requests: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 50, max: 250 })),
  waitedMs: fc.constantFrom(0, 0, 1, 2_000),
  limits: fc.option(limitsArbitrary, { freq: 5 }),
  /** An operator lifts bans: those that began before, relative to now. */
  liftMs: fc.option(fc.constantFrom(-600_000, -1_000, 0, 1_000), { freq: 3 }),
});

it("a quota decides like the reference for all limits, batches and clock steps", () => {
  let bans = 0;
  let lifted = 0;
  const startArbitrary = fc.integer({ min: MINUTE_MS, max: MINUTE_MS + DAY_MS });
  const stepsArbitrary = fc.array(stepArbitrary, { maxLength: 40, size: "max" });
  fc.assert(
    fc.property(startArbitrary, limitsArbitrary, stepsArbitrary, (startMs, limits, steps) => {
      const reference = new Reference();
      const key = newKey(limits, startMs);
      let bansLiftedUntilMs = 0;
      let wasBanned = false;
      for (const { passMs, requests, waitedMs, limits: changed, liftMs } of steps) {
        key.nowMs += passMs;
        key.limits = changed ?? key.limits;
        if (liftMs !== null) bansLiftedUntilMs = banEndMs(key.nowMs + liftMs);
        if (key.nowMs < reference.bannedUntilMs && reference.bannedUntilMs <= bansLiftedUntilMs) lifted += 1;
        const result = key.acquire(requests, { waitedMs, bansLiftedUntilMs });
        const admitted = reference.acquire(key.limits, requests, waitedMs, key.nowMs, bansLiftedUntilMs);
        expect([result.admitted, result.refused]).toEqual([admitted, requests - admitted]);
        const { bannedUntilMs, minute } = reference;
        wasBanned ||= bannedUntilMs > 0;
        expect(result.bannedUntilMs).toBe(key.nowMs < bannedUntilMs ? bannedUntilMs : undefined);
        const { counts, pastDays } = key.quota;
        expect(counts.minute).toMatchObject({ startMs: minute.number * 60_000, used: minute.used });
        const { startMs: todayMs, used, refused } = counts.day;
        expect([...pastDays, { startMs: todayMs, admitted: used, refused }]).toEqual(
          [...reference.days.values()].filter(({ startMs: dayMs }) => dayMs > todayMs - 30 * DAY_MS),
        );
      }
      if (wasBanned) bans += 1;
    }),
    { numRuns: 500 },
  );
  // The runs must include bans, and bans that are lifted.
  expect(bans).toBeGreaterThan(50);
  expect(lifted).toBeGreaterThan(10);
});

it("a lease is at most 1/16 of the remaining requests, minus outstanding leases", () => {
  const key = newKey({ minute: 321, day: 10_000 });
  const first = key.acquire(1, { id: "first", lease: { size: 15, durationMs: 800 } });
  expect([first.lease?.size, key.used]).toEqual([15, [16, 16]]);
  // 304 are left, and 1/16 of them is 19.
  expect(key.acquire(1, { lease: LONG }).lease).toMatchObject({
    size: 4,
    grantedMs: MINUTE_MS,
    durationMs: 800,
  });
  expect(key.acquire(1, { lease: LONG }).lease).toBeUndefined();
  // After their time plus 2 s the first leases are no longer outstanding.
  key.nowMs += 2_799;
  expect(key.acquire(1, { lease: LONG }).lease).toBeUndefined();
  key.nowMs += 1;
  expect(key.acquire(1, { lease: LONG }).lease?.size).toBe(18);

  expect(newKey({ minute: 1_000, day: 65 }).acquire(1, { lease: LONG }).lease?.size).toBe(4);
  // A lease is for at least two.
  expect(newKey({ minute: 33, day: 65 }).acquire(1, { lease: LONG }).lease?.size).toBe(2);
  expect(newKey({ minute: 32, day: 65 }).acquire(1, { lease: LONG }).lease).toBeUndefined();
});

it.each([
  { minute: 400, day: 4_000 },
  { minute: 4_000, day: 400 },
])("no lease is granted when less than a quarter is left of %o", (limits) => {
  const sizeAfter = (requests: number) => newKey(limits).acquire(requests, { lease: LONG }).lease?.size;
  expect([sizeAfter(300), sizeAfter(301)]).toEqual([6, undefined]);
});

it("a lease ends 5 ms before its minute", () => {
  const sizeAt = (leftMs: number) =>
    newKey({ minute: 100, day: 1_000 }, MINUTE_MS + 60_000 - leftMs).acquire(1, { lease: LONG }).lease?.size;
  expect([sizeAt(805), sizeAt(804)]).toEqual([6, undefined]);
});

/** A key with nothing left in its minute, and a lease of 3 with the id "lease". */
function newExhaustedKey() {
  const key = newKey({ minute: 64, day: 640 });
  key.acquire(1, { id: "lease", lease: LONG });
  key.acquire(60);
  return key;
}

it("requests that do not fit are undecided while a lease is outstanding, and change nothing", () => {
  const key = newExhaustedKey();
  const before = key.quota;
  expect(key.acquire(5, { id: "undecided" })).toMatchObject({ admitted: 0, refused: 0 });
  expect(key.quota).toBe(before);
  key.release({ released: [{ id: "lease", unused: 2 }] });
  // No lease is outstanding now, so the same batch is decided.
  expect(key.acquire(5, { id: "undecided" })).toMatchObject({ admitted: 2, refused: 3 });
  expect([key.used, key.quota.counts.minute.refused]).toEqual([[64, 64], 3]);
});

it("requests that do not fit are refused 2 s after the lease has expired", () => {
  const key = newExhaustedKey();
  // Also after a small step back of the clock.
  const refused = [-1, 2_799, 2_800].map((ms) => {
    key.nowMs = MINUTE_MS + ms;
    return key.acquire(1).refused;
  });
  expect(refused).toEqual([0, 0, 1]);
});

it("a lease delays a refusal only in the windows that it was granted in", () => {
  const afterMinute = (day: number, requests: number) => {
    const key = newKey({ minute: 63, day }, MINUTE_MS + 59_000);
    key.acquire(1, { lease: LONG });
    key.nowMs += 1_000;
    key.acquire(requests);
    return key.acquire(1).refused;
  };
  // Only the new minute is used up; only the day is.
  expect([afterMinute(640, 63), afterMinute(66, 62)]).toEqual([1, 0]);
});

it("a repeated batch gets the same result and is charged once, also if it was admitted in part", () => {
  const key = newKey({ minute: 321, day: 10_000 });
  key.acquire(1, { lease: { size: 10, durationMs: 800 } });
  const second = key.acquire(1, { id: "second", lease: LONG });
  expect(second.lease).toMatchObject({ id: "second", size: 9 });
  expect(key.acquire(1, { id: "second", lease: LONG })).toEqual(second);
  expect(key.acquire(310, { id: "in part" })).toMatchObject({ admitted: 300, refused: 0 });
  expect(key.acquire(310, { id: "in part" })).toMatchObject({ admitted: 300, refused: 0 });
  expect(key.used).toEqual([321, 321]);
});

it("a repeated refused batch is refused and counts once, and is undecided when there is room again", () => {
  const key = newKey({ minute: 1, day: 10 });
  key.acquire(1);
  expect(key.acquire(2, { id: "refused" }).refused).toBe(2);
  expect(key.acquire(2, { id: "refused" })).toMatchObject({ admitted: 0, refused: 2 });
  expect(key.quota.counts.minute.refused).toBe(2);
  key.nowMs += 60_000;
  expect(key.acquire(2, { id: "refused" })).toMatchObject({ admitted: 0, refused: 0 });
});

it("the latest 256 batches are deduplicated, including those with a lease request only", () => {
  const key = newKey({ minute: 10_000, day: 10_000 });
  key.acquire(0, { id: "first", lease: { size: 8, durationMs: 10 } });
  for (let batch = 0; batch < 255; batch += 1) key.acquire(1);
  key.acquire(0, { id: "first", lease: LONG });
  expect(key.used[0]).toBe(263);
  key.acquire(1);
  expect(key.quota.recentBatches.size).toBe(256);
  key.acquire(1, { id: "first" });
  expect(key.used[0]).toBe(265);
});

it("a release credits the unused requests to both windows once, at most the size of the lease", () => {
  const key = newKey({ minute: 321, day: 10_000 });
  for (const id of ["first", "second", "third"]) key.acquire(4, { id, lease: { size: 4, durationMs: 800 } });
  const used = [
    { id: "second", unused: 5 },
    { id: "second", unused: 5 },
    { id: "first", unused: 3 },
  ].map((release) => {
    key.release({ released: [release] });
    return key.used;
  });
  expect(used).toEqual([
    [20, 20],
    [20, 20],
    [17, 17],
  ]);
  expect(key.quota.leases.map(({ id }) => id)).toEqual(["third"]);
});

it("a batch that arrives after the release of its lease gets no lease and is not counted", () => {
  const key = newKey({ minute: 320, day: 10_000 });
  key.release({ released: [{ id: "late", unused: 8 }] });
  const { admitted, refused, lease } = key.acquire(5, { id: "late", lease: LONG });
  expect([admitted, refused, lease, key.used]).toEqual([0, 0, undefined, [0, 0]]);
});

it.each([
  ["after", 1],
  ["before", -1],
])("a release is ignored when the clock is 2 min %s the grant", (_, sign) => {
  const usedAfter = (ms: number) => {
    const key = newExhaustedKey();
    key.nowMs += sign * ms;
    key.release({ released: [{ id: "lease", unused: 3 }] });
    return key.used[1];
  };
  expect([usedAfter(119_999), usedAfter(120_000)]).toEqual([61, 64]);
});

it("leases and local admissions from before midnight count in their own day", () => {
  const key = newKey({ minute: 320, day: 10_000 }, MIDNIGHT_MS - 1_000);
  key.acquire(1, { id: "lease", lease: { size: 8, durationMs: 800 } });
  key.nowMs = MIDNIGHT_MS;
  key.acquire(1);
  const outbox = [MIDNIGHT_MS - 2 * DAY_MS, MIDNIGHT_MS - 1, MIDNIGHT_MS].map((atMs) => ({
    id: `at ${atMs}`,
    atMs,
    requests: 10,
  }));
  key.release({ released: [{ id: "lease", unused: 5 }], outbox });
  expect(key.used).toEqual([11, 11]);
  expect(key.quota.pastDays).toEqual([
    { startMs: MIDNIGHT_MS - 2 * DAY_MS, admitted: 10, refused: 0 },
    { startMs: MIDNIGHT_MS - DAY_MS, admitted: 14, refused: 0 },
  ]);
});

it("local admissions count in their own minute, to the millisecond", () => {
  const key = newKey({ minute: 60, day: 1_000 });
  const outbox = [MINUTE_MS - 1, MINUTE_MS].map((atMs) => ({ id: `at ${atMs}`, atMs, requests: 1 }));
  key.release({ outbox });
  expect(key.used).toEqual([1, 2]);
});

it("a locally decided batch counts once, also if the object has admitted a part of it or gets it later", () => {
  const key = newKey({ minute: 2, day: 1_000 });
  key.acquire(5, { id: "early" });
  for (const id of ["early", "late", "late"]) key.release({ outbox: [{ id, atMs: MINUTE_MS, requests: 5 }] });
  expect(key.used).toEqual([10, 10]);
  expect(key.acquire(5, { id: "late" })).toMatchObject({ admitted: 5, refused: 0 });
  expect(key.used).toEqual([10, 10]);
});

it("a local ban holds for at most ten minutes and shortens no other ban", () => {
  const key = newKey({ minute: 60, day: 1_000 });
  const untilMs = MINUTE_MS + 600_000;
  for (const bannedUntilMs of [MINUTE_MS + 3 * DAY_MS, MINUTE_MS + 1]) key.release({ bannedUntilMs });
  expect(key.acquire(1)).toMatchObject({ admitted: 0, refused: 1, bannedUntilMs: untilMs });
  // Local admissions of other isolates are charged during a ban too.
  key.release({ outbox: [{ id: "elsewhere", atMs: MINUTE_MS, requests: 1 }] });
  expect(key.used).toEqual([1, 1]);
  key.nowMs = untilMs;
  expect(key.acquire(1).admitted).toBe(1);
});

it("every change raises the revision, at least to the current time; a repeated report does not", () => {
  const key = newKey({ minute: 60, day: 1_000 });
  const report = { released: [{ id: "a", unused: 1 }], outbox: [{ id: "b", atMs: MINUTE_MS, requests: 1 }] };
  const revisions = [0, 5, -5].flatMap((ms) => {
    key.nowMs += ms;
    return [key.acquire(1), key.acquire(0, report)].map(({ revision }) => revision - MINUTE_MS);
  });
  expect(revisions).toEqual([0, 1, 5, 5, 6, 6]);
});
