// acquire on a quota: windows, bans, leases, reports and repeated calls. The simulation has random lives of a key.

import { assert, expect, it } from "vitest";
import { acquire } from "../../src/limits/object/acquire.ts";
import { BAN_MS, liftBan } from "../../src/limits/object/bans.ts";
import { unusedQuota } from "../../src/limits/object/quota.ts";
import { daysOf } from "../../src/limits/object/totals.ts";
import type { AcquireRequest, AcquireResult } from "../../src/limits/protocol.ts";
import { type Limits, longest, shortest, type Window } from "../../src/limits/windows.ts";
import { NO_REQUESTS } from "../support/key-record.ts";

const MINUTE_MS = Date.UTC(2026, 10, 20, 12, 34);

/** A local decision of an isolate. */
const DECISION = { atMs: MINUTE_MS, admitted: 0, refusedBy: {} };

/** More than any limit here: the lease is as large as possible. */
const HOT = { recent: 10_000 };

/** A key's quota; the test moves its clock. Calls are those of isolate A, and have the numbers 10, 20 and so on. */
function newKey(limits: Limits, nowMs = MINUTE_MS) {
  let number = 0;
  const key = {
    limits,
    nowMs,
    quota: unusedQuota({ minute: 60, day: 86_400 }),
    acquire(requests: number, rest: Partial<AcquireRequest> = {}): AcquireResult {
      number += 10;
      const call = { ...NO_REQUESTS, isolate: "A", number, requests, wantsLease: true };
      const next = acquire(key.quota, key.limits, { ...call, ...rest }, key.nowMs);
      // The object stores changes only.
      if (next.quota.revision !== key.quota.revision) key.quota = next.quota;
      return next.result;
    },
    /** Acquires without requests. Returns the counts of minute and day. */
    usedAfter(rest: Partial<AcquireRequest>): number[] {
      return usedOf(key.acquire(0, rest));
    },
  };
  return key;
}

/** What minute and day have used. */
const usedOf = ({ windows }: AcquireResult) => Object.values(windows).map(({ used }: Window) => used);

/** The third call in a row of isolate A, which gets a lease as long as any can be. It gives back the leases of the first two. */
function acquireAsBefore(key: ReturnType<typeof newKey>, rest: Partial<AcquireRequest>): AcquireResult {
  for (let call = 0; call < 2; call += 1) key.acquire(0, rest);
  return key.acquire(1, rest);
}

/** How a batch was decided. */
const outcome = ({ admitted, refused }: AcquireResult) => ({ admitted, refused });

/** A key with a refusal at MINUTE_MS, 7 s later. From now on, refusals count towards a ban. */
function newRefusedKey(limits: Limits) {
  const key = newKey(limits);
  key.acquire(shortest(limits) + 1);
  key.nowMs += 7_000;
  return key;
}

it("a ban begins after refusals of three times the limit that come 7 s after the first or later", () => {
  const key = newRefusedKey({ minute: 70, day: 1_000 });
  // A lowered limit does not lower what its minute tolerates.
  key.limits = { minute: 1, day: 1_000 };
  key.nowMs -= 1;
  expect(key.acquire(900).bannedUntilMs).toBeUndefined();
  key.nowMs += 1;
  expect(key.acquire(210).bannedUntilMs).toBeUndefined();
  const bannedUntilMs = MINUTE_MS + 7_000 + BAN_MS;
  expect(key.acquire(5)).toMatchObject({ admitted: 0, refused: 5, bannedUntilMs });
  // Its isolate refuses these.
  expect(key.acquire(5)).toMatchObject({ admitted: 0, refused: 0, bannedUntilMs });
  // The refusals of the batch with which the ban began count, and no later ones.
  expect(daysOf(key.quota.totals)[0]?.refusedBy.minute).toBe(1 + 900 + 210 + 5);
  const admitted = [bannedUntilMs - 1, bannedUntilMs].map((nowMs) => {
    key.nowMs = nowMs;
    return key.acquire(1).admitted;
  });
  expect(admitted).toEqual([0, 1]);
});

it("refusals that isolates report count by their own time, and not in another minute", () => {
  const key = newKey({ minute: 1, day: 9 });
  const report = (isolate: string, atMs: number, refused: number) => {
    const decisions = [{ ...DECISION, number: 5, atMs, refusedBy: { minute: refused } }];
    return key.acquire(0, { isolate, decisions }).bannedUntilMs;
  };
  // The first refusal is known from its report on.
  expect(report("A", MINUTE_MS, 500)).toBeUndefined();
  key.nowMs += 20_000;
  expect(report("B", MINUTE_MS + 6_999, 500)).toBeUndefined();
  expect(report("C", MINUTE_MS + 7_000, 180)).toBeUndefined();
  expect(report("D", MINUTE_MS - 1, 500)).toBeUndefined();
  expect(report("E", MINUTE_MS + 7_000, 1)).toBe(key.nowMs + BAN_MS);
});

it("a ban that an operator has lifted is over, and its refusals don't count any more", () => {
  const key = newRefusedKey({ minute: 60, day: 1_000 });
  const { bannedUntilMs = 0 } = key.acquire(181);
  const banAfter = (requests: number, bansLiftedUntilMs: number) => {
    key.quota = liftBan(key.quota, bansLiftedUntilMs);
    return key.acquire(requests).bannedUntilMs;
  };
  expect(banAfter(1, bannedUntilMs - 1)).toBe(bannedUntilMs);
  expect(banAfter(180, bannedUntilMs)).toBeUndefined();
  key.nowMs += 1_000;
  expect(banAfter(1, bannedUntilMs)).toBe(bannedUntilMs + 1_000);
});

it("a lease is charged at once, and is at most half of what is left in the tighter window", () => {
  for (const limits of [
    { minute: 101, day: 1_000 },
    { minute: 1_000, day: 101 },
  ]) {
    const result = newKey(limits).acquire(1, HOT);
    expect([result.lease?.size, ...usedOf(result)]).toEqual([50, 51, 51]);
  }
  // A lease is for at least two.
  const sizes = [4, 5].map((minute) => newKey({ minute, day: 1_000 }).acquire(1, HOT).lease?.size);
  expect(sizes).toEqual([undefined, 2]);
});

it("a lease is shorter if all isolates reach the limit within seconds, and ends with its minute", () => {
  const granted = (minute: number, { leftMs = 60_000, ofOthers = 0, recent = 100 } = {}) => {
    const key = newKey({ minute, day: 1_000_000 }, MINUTE_MS + 60_000 - leftMs);
    key.acquire(ofOthers, { isolate: "B", recent: ofOthers });
    return acquireAsBefore(key, { recent }).lease;
  };
  const lease = granted(1_000);
  expect(lease?.durationMs).toBe(2_000);
  // For more than the 50 recent requests of its time, but not for many more.
  expect(lease?.size).toBeGreaterThan(50);
  expect(lease?.size).toBeLessThan(60);
  // The limit is reached in 6 s at the rate of this isolate; in 3 s at the rate of all.
  const [slow = 0, fast = 0] = [granted(151)?.durationMs, granted(827, { ofOthers: 400 })?.durationMs];
  expect([slow > 1_000, slow < 2_000, fast > 500, fast < 1_000]).toEqual([true, true, true, true]);
  // An isolate that has just reported the end of its lease may have requests too.
  const key = newKey({ minute: 827, day: 1_000_000 });
  key.acquire(400, { isolate: "B", recent: 400, wantsLease: false });
  expect(acquireAsBefore(key, { recent: 100 }).lease?.durationMs).toBeLessThan(1_000);
  const atEnd = [1_000, 305, 304].map((leftMs) => granted(100_000, { leftMs, ...HOT })?.durationMs);
  expect(atEnd).toEqual([995, 300, undefined]);
});

it("a first lease lasts 500 ms, and each next one twice as long, up to 2 s; after 4 s without a call they begin anew", () => {
  const key = newKey({ minute: 5_000, day: 100_000 }, MINUTE_MS + 10_000);
  const durationAfter = (ms: number) => {
    key.nowMs += ms;
    return key.acquire(1, { recent: 100 }).lease?.durationMs;
  };
  expect([0, 500, 1_000, 2_000].map(durationAfter)).toEqual([500, 1_000, 2_000, 2_000]);
  expect([3_999, 4_000, 3_999].map(durationAfter)).toEqual([2_000, 500, 1_000]);
  // Of another isolate, nothing is known.
  expect(key.acquire(1, { isolate: "B", recent: 100 }).lease?.durationMs).toBe(500);
});

it("a lease is granted to an isolate with three recent requests that wants one, but a first one only with more than four", () => {
  const hasNext = (recent: number, wantsLease = true) => {
    const key = newKey({ minute: 200, day: 100_000 });
    key.acquire(1, { recent: 100 });
    return key.acquire(1, { recent, wantsLease }).lease !== undefined;
  };
  expect([hasNext(1), hasNext(2.9), hasNext(3), hasNext(3, false)]).toEqual([false, false, true, false]);
  // With four it would be for one request.
  const hasFirst = (recent: number) =>
    newKey({ minute: 80, day: 100_000 }).acquire(1, { recent }).lease !== undefined;
  expect([1, 4, 4.1].map(hasFirst)).toEqual([false, false, true]);
});

it("while 90 times the recent requests of all isolates are left in both windows, leases last 3.5 s from 2.1 recent requests on", () => {
  const granted = (left: number, recent: number, { ofOthers = 0, limit = 1_000, leftMs = 60_000 } = {}) => {
    const key = newKey({ minute: limit, day: 100_000 }, MINUTE_MS + 60_000 - leftMs);
    key.acquire(limit - 1 - left, { isolate: "B", recent: ofOthers, wantsLease: false });
    const { durationMs, size } = key.acquire(1, { recent }).lease ?? {};
    return [durationMs, size];
  };
  const none = [undefined, undefined];
  expect([granted(270, 3, { limit: 300 }), granted(269, 3, { limit: 300 })]).toEqual([[3_500, 7], none]);
  expect([granted(900, 2), granted(900, 2.1)]).toEqual([none, [3_500, 6]]);
  expect(granted(900, 5, { ofOthers: 5 })).toEqual([3_500, 8]);
  expect(granted(899, 5, { ofOthers: 5 })).toEqual([500, 2]);
  expect(newKey({ minute: 1_000, day: 271 }).acquire(1, { recent: 3 }).lease?.durationMs).toBe(3_500);
  expect(newKey({ minute: 1_000, day: 270 }).acquire(1, { recent: 3 }).lease).toBeUndefined();
  // Other rules hold for them too.
  expect(granted(900, 3, { leftMs: 2_000 })[0]).toBe(1_995);
  expect(granted(2_000, 3, { limit: 10_000, ofOthers: 3 })).toEqual(none);
});

it("isolates that share the last quarter of a minute's limit get no lease, and one that was alone for 4 s does", () => {
  const hasLease = (left: number, aloneMs: number) => {
    const key = newKey({ minute: 400, day: 10_000 });
    key.acquire(399 - left, { isolate: "B", recent: 1 });
    key.nowMs += aloneMs;
    return key.acquire(1, { recent: 10 }).lease !== undefined;
  };
  expect([hasLease(100, 0), hasLease(99, 0)]).toEqual([true, false]);
  expect([hasLease(99, 3_999), hasLease(99, 4_000)]).toEqual([false, true]);
});

it("a renewed lease keeps its id and what is used of it meanwhile, and only what it never used is credited", () => {
  const key = newKey({ minute: 10_000, day: 100_000 });
  const { lease: first } = acquireAsBefore(key, { recent: 100 });
  const { lease } = key.acquire(0, { recent: 100, lease: { id: 30, used: 40, isOver: false } });
  expect([first?.id, lease?.id]).toEqual([30, 30]);
  // It has as many unused requests as before.
  expect(lease?.size).toBe((first?.size ?? 0) + 40);
  expect(key.acquire(0, { isolate: "B" }).leased.minute).toBe(first?.size);
  expect(shortest(key.quota.counts).used).toBe(1 + (lease?.size ?? 0));
  expect(key.usedAfter({ lease: { id: 30, used: 70, isOver: true } })).toEqual([71, 71]);
  // It is credited once.
  expect(key.usedAfter({ lease: { id: 30, used: 70, isOver: true } })).toEqual([71, 71]);
});

it("a lease of an earlier minute is not renewed, nor one that has become much too large", () => {
  const renewed = (afterMs: number, recent: number) => {
    const key = newKey({ minute: 400, day: 10_000 }, MINUTE_MS + 59_000);
    key.acquire(1, { recent: 100 });
    key.nowMs += afterMs;
    return key.acquire(1, { recent, lease: { id: 10, used: 1, isOver: false } }).lease?.id;
  };
  expect([renewed(100, 100), renewed(1_000, 100), renewed(100, 3)]).toEqual([10, undefined, undefined]);
});

/** A key with a limit of 101: isolate A has used 1, and has an unused lease of 50. */
function newLeasedKey(nowMs = MINUTE_MS, day = 10_000) {
  const key = newKey({ minute: 101, day }, nowMs);
  key.acquire(1, HOT);
  return key;
}

it("requests are undecided only if an outstanding lease can make room for them, in the minute's last 5 s all that don't fit", () => {
  const decided = (leftMs: number) =>
    outcome(newLeasedKey(MINUTE_MS + 60_000 - leftMs).acquire(120, { isolate: "B" }));
  // Nobody waits if there is no lease.
  const alone = newKey({ minute: 10, day: 99 }, MINUTE_MS + 59_000).acquire(12);
  expect(outcome(alone)).toEqual({ admitted: 10, refused: 2 });
  expect([5_001, 5_000].map(decided)).toEqual([
    { admitted: 50, refused: 20 },
    { admitted: 50, refused: 0 },
  ]);
});

it("requests that had to wait in the last 5 s of a minute find its room in the next one: no lease is granted for 5 s", () => {
  const hasLease = (leftMs: number, nextMs: number) => {
    const key = newLeasedKey(MINUTE_MS + 60_000 - leftMs);
    key.acquire(90, { isolate: "B" });
    key.nowMs = MINUTE_MS + 60_000 + nextMs;
    return key.acquire(1, HOT).lease !== undefined;
  };
  expect([hasLease(5_001, 0), hasLease(5_000, 4_999), hasLease(5_000, 5_000)]).toEqual([true, false, true]);
});

it("undecided requests are to be sent again when the lease has ended, until its report is 50 ms late, and are refused after 3 s", () => {
  const key = newLeasedKey();
  const durationMs = key.quota.isolates.get("A")?.lease?.durationMs ?? 0;
  key.acquire(50, { isolate: "B" });
  const at = (ms: number) => {
    key.nowMs = MINUTE_MS + durationMs + ms;
    const { refused, retryMs = 0 } = key.acquire(1, { isolate: "B" });
    return refused === 1 ? "refused" : retryMs - MINUTE_MS;
  };
  expect([-1, 0, 49, 50].map(at)).toEqual([durationMs, durationMs, durationMs, 60_000]);
  expect([2_999, 3_000].map(at)).toEqual([60_000, "refused"]);
  // The lease can still be credited.
  expect(key.usedAfter({ lease: { id: 10, used: 3, isOver: true } })).toEqual([54, 54]);
});

it("a lease delays a refusal only in the windows that it was granted in, and only of other isolates", () => {
  const afterMinute = (day: number, requests: number) => {
    const key = newLeasedKey(MINUTE_MS + 59_000, day);
    key.nowMs += 1_000;
    key.acquire(requests, { isolate: "B" });
    return key.acquire(1, { isolate: "B" });
  };
  // Only the new minute is used up; only the day is.
  expect([afterMinute(10_000, 101), afterMinute(151, 100)].map(({ refused }) => refused)).toEqual([1, 0]);
  expect(newLeasedKey().acquire(0, { lease: { id: 10, used: 0, isOver: false } }).leased.minute).toBe(0);
  expect(newLeasedKey().acquire(0, { isolate: "B" }).leased).toEqual({ minute: 50, day: 50 });
});

it("a repeated call gets the same result and is charged once, also if it was admitted in part", () => {
  const key = newKey({ minute: 100, day: 1_000 });
  const leased = key.acquire(20, { number: 10, ...HOT });
  expect(leased.lease?.size).toBe(40);
  expect(key.acquire(20, { number: 10, ...HOT })).toEqual(leased);
  const inPart = key.acquire(90, { number: 30, lease: { id: 10, used: 40, isOver: true } });
  expect(outcome(inPart)).toEqual({ admitted: 40, refused: 50 });
  expect(key.acquire(90, { number: 30 })).toEqual(inPart);
  expect(daysOf(key.quota.totals)).toMatchObject([
    { admitted: 100, refusedBy: { minute: 50 }, busiest: { minute: 150 } },
  ]);
});

it("a repeated call that is undecided because the limit is higher now counts its late refusals only when they are refused", () => {
  const key = newKey({ minute: 60, day: 1_000 });
  key.acquire(62);
  key.nowMs += 7_000;
  key.acquire(95, { number: 15 });
  expect(key.quota.refusals.late).toBe(95);
  key.limits = { minute: 70, day: 1_000 };
  expect(outcome(key.acquire(95, { number: 15 }))).toEqual({ admitted: 0, refused: 0 });
  expect(key.quota.refusals.late).toBe(0);
});

it("a local decision about a call whose result was lost replaces it, also if it admitted less", () => {
  const key = newKey({ minute: 2, day: 1_000 });
  key.acquire(5, { number: 10 });
  // The second is the first report again: its result was lost. The object never got call 15.
  const decisions = [
    { ...DECISION, number: 10, refusedBy: { minute: 5 } },
    { ...DECISION, number: 15, admitted: 7, refusedBy: { minute: 1 } },
  ];
  for (const number of [20, 30]) key.acquire(0, { number, decisions });
  expect(key.acquire(7, { number: 15 })).toMatchObject({ admitted: 0, refused: 0 });
  expect(daysOf(key.quota.totals)).toMatchObject([
    { admitted: 7, refusedBy: { minute: 6 }, busiest: { minute: 13 } },
  ]);
});

it("an isolate is forgotten after 60 s without a call", () => {
  const usedAfter = (ms: number) => {
    const key = newKey({ minute: 100, day: 1_000 });
    key.acquire(1, { number: 10 });
    key.nowMs += ms;
    key.acquire(1, { isolate: "B" });
    key.acquire(1, { number: 10 });
    return longest(key.quota.counts).used;
  };
  expect([59_999, 60_000, -60_000].map(usedAfter)).toEqual([2, 3, 3]);
});

it("every change raises the revision, at least to the current time; a call without effect does not", () => {
  const key = newKey({ minute: 60, day: 1_000 });
  const revisions = [0, 5, -5].flatMap((ms) => {
    key.nowMs += ms;
    return [key.acquire(1), key.acquire(0)].map(({ revision }) => revision - MINUTE_MS);
  });
  expect(revisions).toEqual([0, 0, 5, 5, 6, 6]);
});

it("an isolate's share is its part of the requests of the last minute, without half of those that its call has just reported", () => {
  const key = newKey({ minute: 1_000, day: 10_000 });
  const shareOf = (isolate: string, requests: number) =>
    key.acquire(requests, { isolate, wantsLease: false }).share?.toFixed(3);
  expect([shareOf("A", 0), shareOf("A", 6)]).toEqual(["1.000", "1.000"]);
  expect(shareOf("B", 4)).toBe((2 / 8).toFixed(3));
  key.nowMs += 30_000;
  const left = Math.exp(-1 / 2);
  expect(shareOf("B", 4)).toBe(((2 + 4 * left) / (2 + 10 * left)).toFixed(3));
  // A repeated call reports nothing new.
  expect(shareOf("B", 0)).toBe(((4 + 4 * left) / (4 + 10 * left)).toFixed(3));
});

it("an isolate's share counts what it has used of its lease, and what it has decided by itself", () => {
  const key = newKey({ minute: 1_000, day: 10_000 });
  key.acquire(10, { isolate: "B" });
  const { lease } = acquireAsBefore(key, { ...HOT });
  assert(lease);
  const decisions = [{ ...DECISION, number: 45, admitted: 2, refusedBy: { minute: 3 } }];
  const { share } = key.acquire(0, { decisions, lease: { id: lease.id, used: 5, isOver: true } });
  expect(share?.toFixed(3)).toBe(((1 + 10 / 2) / (1 + 10 / 2 + 10)).toFixed(3));
});

it("a call that says nothing of its lease gets no other one, and what was leased stays charged", () => {
  const key = newKey({ minute: 300, day: 1_000 });
  const { lease, windows } = acquireAsBefore(key, HOT);
  assert(lease);
  const silent = { ...HOT, lease: undefined as never };
  expect(key.acquire(1, silent)).toMatchObject({ windows: { minute: { used: shortest(windows).used + 1 } } });
  expect(key.acquire(1, silent)).not.toHaveProperty("lease");
  expect(shortest(key.acquire(1, HOT).windows).used).toBeGreaterThanOrEqual(shortest(windows).used + 3);
});

it("a call that does not say whose it is is counted each time, and not remembered", () => {
  const key = newKey({ minute: 300, day: 1_000 });
  const nobody = { isolate: "", number: 1, wantsLease: false };
  expect([key.acquire(2, nobody).admitted, key.acquire(2, nobody).admitted]).toEqual([2, 2]);
  expect([shortest(key.quota.counts).used, key.quota.isolates.size]).toEqual([4, 0]);
});
