// acquire and release on a quota: windows, bans, leases, retries and reports. The simulation has random lives of a key.

import { expect, it } from "vitest";
import { acquire, type Quota, reconcile, rollOver, UNUSED_QUOTA } from "../../src/rate-limit/object/quota.ts";
import type { AcquireRequest, AcquireResult, Report } from "../../src/rate-limit/protocol.ts";
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

it("the totals of the last 30 days are kept, today included", () => {
  const key = newKey({ minute: 60, day: 2 });
  for (let day = 0; day <= 30; day += 1) {
    key.nowMs = MINUTE_MS + day * DAY_MS;
    key.acquire(3);
  }
  const days = Array.from({ length: 29 }, (_, index) => MIDNIGHT_MS + index * DAY_MS);
  expect(key.quota.pastDays).toEqual(days.map((startMs) => ({ startMs, admitted: 2, refused: 1 })));
});

/** A key whose first refusal of the minute is at MINUTE_MS, 2,001 ms later. Refusals count towards a ban from now on. */
function newRefusedKey(limits: Limits) {
  const key = newKey(limits);
  key.acquire(limits.minute + 1);
  key.nowMs += 2_001;
  return key;
}

it.each([
  ["180", { minute: 60, day: 1_000 }, 180],
  ["three times the limit", { minute: 70, day: 1_000 }, 210],
])("a ban begins after %s refusals that arrived more than 2 s after the first", (_, limits, tolerated) => {
  const key = newRefusedKey(limits);
  // A lowered limit does not lower what its minute tolerates.
  key.limits = { minute: 1, day: 1_000 };
  expect(key.acquire(900, { waitedMs: 1 }).bannedUntilMs).toBeUndefined();
  expect(key.acquire(tolerated).bannedUntilMs).toBeUndefined();
  const bannedUntilMs = MINUTE_MS + 603_000;
  expect(key.acquire(5)).toMatchObject({ admitted: 0, refused: 5, bannedUntilMs });
  expect(key.acquire(5)).toMatchObject({ admitted: 0, refused: 5, bannedUntilMs });
  // Only the refusal that began the ban counts.
  expect(key.quota.counts.minute.refused).toBe(1 + 900 + tolerated + 1);
  const admitted = [bannedUntilMs - 1, bannedUntilMs].map((nowMs) => {
    key.nowMs = nowMs;
    return key.acquire(1).admitted;
  });
  expect(admitted).toEqual([0, 1]);
});

it("a ban that an operator has lifted is over, and its refusals don't count any more", () => {
  const key = newRefusedKey({ minute: 60, day: 1_000 });
  const { bannedUntilMs = 0 } = key.acquire(181);
  const banAfter = (requests: number, bansLiftedUntilMs: number) =>
    key.acquire(requests, { bansLiftedUntilMs }).bannedUntilMs;
  expect(banAfter(1, bannedUntilMs - 1)).toBe(bannedUntilMs);
  expect(banAfter(180, bannedUntilMs)).toBeUndefined();
  key.nowMs += 1_000;
  expect(banAfter(1, bannedUntilMs)).toBe(bannedUntilMs + 1_000);
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

it("no lease is granted when less than a quarter is left, or less than its time plus 5 ms", () => {
  const sizeAfter = (limits: Limits, requests: number, atMs = MINUTE_MS) =>
    newKey(limits, atMs).acquire(requests, { lease: LONG }).lease?.size;
  for (const limits of [
    { minute: 400, day: 4_000 },
    { minute: 4_000, day: 400 },
  ])
    expect([300, 301].map((requests) => sizeAfter(limits, requests))).toEqual([6, undefined]);
  const sizeAt = (leftMs: number) => sizeAfter({ minute: 100, day: 1_000 }, 1, MINUTE_MS + 60_000 - leftMs);
  expect([805, 804].map(sizeAt)).toEqual([6, undefined]);
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
    // More than the size of the lease, like from an isolate that has not got it.
    key.release({ released: [{ id: "lease", unused: 9 }] });
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

it("a locally decided batch counts once, also if the object has admitted a part of it or gets it later", () => {
  const key = newKey({ minute: 2, day: 1_000 });
  key.acquire(5, { id: "early" });
  for (const id of ["early", "late", "late"]) key.release({ outbox: [{ id, atMs: MINUTE_MS, requests: 5 }] });
  expect(key.used).toEqual([10, 10]);
  expect(key.acquire(5, { id: "late" })).toMatchObject({ admitted: 5, refused: 0 });
  expect(key.used).toEqual([10, 10]);
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
