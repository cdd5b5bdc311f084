// A key's quota in its object, and how acquire and release change it. Pure functions of (quota, limits, request, now). An isolate
// that can't reach the object runs the same functions on the last status it knows.

import type { AcquireRequest, DayTotals, Lease, Report, Status } from "../protocol.ts";
import { CALL_DEADLINE_MS, DAY_MS, DAYS_KEPT, LEASE_MARGIN_MS, LEASE_MS } from "../protocol.ts";
import type { Counts, Limits } from "../windows.ts";
import * as Windows from "../windows.ts";

/** How long a ban lasts. It is never extended; only an operator ends it earlier. */
export const BAN_MS = 10 * 60_000;
/** When a ban that begins at `nowMs` ends (both Unix time): a whole second. A later ban ends later, so the end identifies it. */
export const banEndMs = (nowMs: number) => Math.ceil((nowMs + BAN_MS) / 1000) * 1000;
/** A refusal counts towards a ban if its request arrived this long after the first refusal of its minute. */
export const BAN_GRACE_MS = 2_000;
/** How many such refusals a minute tolerates, or three times its largest limit if that is more. */
export const MIN_TOLERATED_REFUSALS = 180;

/** All leases together are at most this share of the remaining requests. */
const LEASE_SHARE = 1 / 16;
const MIN_LEASE = 2;
/** Nothing is leased while a window has less than this share of its limit left. */
const LEASE_FLOOR = 1 / 4;

/** How long a lease stays outstanding after its time: by then it was released, unless a call failed or the isolate has ended. */
const RELEASE_MS = CALL_DEADLINE_MS;
/** How long after its grant a lease can be released: isolates retry for 17 s, and after an outage with their next call. */
const LEASE_KEPT_MS = 120_000;

/** A batch that is retried after this many others is charged twice: at 100 calls a second, after 2.5 s. */
const MAX_RECENT_BATCHES = 256;

export interface Quota {
  /** Grows with every change; at least the time of the last change (Unix time). */
  revision: number;
  counts: Counts;
  /** Of the minute: the time of the first refusal (Unix time, or 0), the refusals that count towards a ban, the largest limit. */
  refusals: { firstMs: number; late: number; maxLimit: number };
  /** Unix time, or 0. */
  bannedUntilMs: number;
  /** How many requests were admitted, by batch id, oldest first. */
  recentBatches: ReadonlyMap<string, number>;
  /** Leases that can still be released. They are included in `used`. */
  leases: readonly Lease[];
  pastDays: readonly DayTotals[];
}

export const UNUSED_QUOTA: Quota = {
  revision: 0,
  counts: { minute: Windows.UNUSED_COUNT, day: Windows.UNUSED_COUNT },
  refusals: { firstMs: 0, late: 0, maxLimit: 0 },
  bannedUntilMs: 0,
  recentBatches: new Map(),
  leases: [],
  pastDays: [],
};

/** The quota as of `nowMs`: starts new windows, and moves the totals of a finished day to `pastDays`. */
export function rollOver(quota: Quota, limits: Limits, nowMs: number): Quota {
  const { minute, day } = quota.counts;
  const counts = Windows.rollOver(quota.counts, nowMs);
  const refusals = counts.minute.startMs === minute.startMs ? quota.refusals : UNUSED_QUOTA.refusals;
  const isNewDay = counts.day.startMs !== day.startMs;
  const over = { startMs: day.startMs, admitted: day.used, refused: day.refused };
  return {
    ...quota,
    counts,
    refusals: { ...refusals, maxLimit: Math.max(refusals.maxLimit, limits.minute) },
    leases: quota.leases.filter(({ grantedMs }) => Math.abs(nowMs - grantedMs) < LEASE_KEPT_MS),
    pastDays: isNewDay ? daysBefore(counts, [...quota.pastDays, over]) : quota.pastDays,
  };
}

/** `quota` must be rolled over to `nowMs`. */
export function statusOf(quota: Quota, limits: Limits, nowMs: number): Status {
  const { revision, counts, bannedUntilMs, leases } = quota;
  const windows = Windows.withLimits(counts, limits);
  return { revision, nowMs, windows, leases, ...(nowMs < bannedUntilMs && { bannedUntilMs }) };
}

/** Admits the requests that fit, refuses the rest if no lease can make room, and grants a lease. */
export function acquire(quota: Quota, limits: Limits, request: AcquireRequest, nowMs: number) {
  const { id, requests } = request;
  const before = reconcile(rollOver(quota, limits, nowMs), request, nowMs);
  const answer = (after: Quota, admitted: number, refused: number, lease?: Lease) => {
    const result = { ...statusOf(after, limits, nowMs), admitted, refused, ...(lease && { lease }) };
    return { result, quota: after };
  };
  const known = before.recentBatches.get(id);
  const isBanned = nowMs < before.bannedUntilMs;
  if (known !== undefined || isBanned) {
    // In a retry, requests that were refused are undecided if there is room again: a new window may have begun.
    const refused = isBanned || !canComeBack(before, limits, nowMs) ? requests - (known ?? 0) : 0;
    const lease = before.leases.find((each) => each.id === id);
    return answer(before, known ?? 0, refused, lease);
  }

  const admitted = Math.min(requests, Windows.room(Windows.withLimits(before.counts, limits)));
  const charged = { ...before, counts: Windows.add(before.counts, admitted, 0) };
  const rest = requests - admitted;
  const refused = canComeBack(charged, limits, nowMs) ? 0 : rest;
  const counted = refused > 0 ? refuse(charged, refused, nowMs - request.waitedMs, nowMs) : charged;
  const lease = grant(counted, limits, request, nowMs);
  const leased = lease?.size ?? 0;
  if (admitted + refused + leased === 0) return answer(before, 0, 0);
  const after = {
    ...counted,
    counts: Windows.add(counted.counts, leased, 0),
    recentBatches: withBatch(before.recentBatches, id, admitted),
    leases: lease === undefined ? before.leases : [...before.leases, lease],
  };
  return answer(revised(after, nowMs), admitted, refused, lease);
}

/** Applies a report. Returns `quota` itself if nothing changes. */
export function reconcile(quota: Quota, report: Report, nowMs: number): Quota {
  let { counts, pastDays, recentBatches, leases } = quota;
  const charge = (requests: number, atMs: number) => {
    counts = Windows.mapWindows(counts, (each) =>
      atMs < each.startMs ? each : { ...each, used: each.used + requests },
    );
    if (atMs < counts.day.startMs) pastDays = daysBefore(counts, chargeDay(pastDays, requests, atMs));
  };
  for (const { id, unused } of report.released) {
    const lease = leases.find((each) => each.id === id);
    if (lease !== undefined) charge(-Math.min(unused, lease.size), lease.grantedMs);
    leases = leases.filter((each) => each !== lease);
    // The call that requested the lease may still arrive: then it must not be granted.
    if (!recentBatches.has(id)) recentBatches = withBatch(recentBatches, id, 0);
  }
  for (const { id, requests, atMs } of report.outbox) {
    const uncharged = requests - (recentBatches.get(id) ?? 0);
    if (uncharged <= 0) continue;
    charge(uncharged, atMs);
    recentBatches = withBatch(recentBatches, id, requests);
  }
  // The isolate's clock may be wrong, but must not make a ban longer.
  const banMs = Math.max(quota.bannedUntilMs, Math.min(report.bannedUntilMs, banEndMs(nowMs)));
  const { bannedUntilMs, refusals } = liftBan({ ...quota, bannedUntilMs: banMs }, report.bansLiftedUntilMs);
  const isSame = recentBatches === quota.recentBatches && leases.length === quota.leases.length;
  if (isSame && bannedUntilMs === quota.bannedUntilMs) return quota;
  return revised({ ...quota, counts, refusals, pastDays, recentBatches, leases, bannedUntilMs }, nowMs);
}

/** Ends a ban that ends by `liftedUntilMs`. The refusals that led to it don't count any more. */
export function liftBan(quota: Quota, liftedUntilMs: number): Quota {
  if (quota.bannedUntilMs === 0 || quota.bannedUntilMs > liftedUntilMs) return quota;
  return { ...quota, bannedUntilMs: 0, refusals: { ...quota.refusals, late: 0 } };
}

function revised(quota: Quota, nowMs: number): Quota {
  return { ...quota, revision: Math.max(quota.revision + 1, nowMs) };
}

/** Counts refusals of requests that arrived at `arrivedMs`. The first one over the limit starts a ban; the rest don't count. */
function refuse(quota: Quota, requests: number, arrivedMs: number, nowMs: number): Quota {
  const { firstMs, late, maxLimit } = quota.refusals;
  const isLate = firstMs > 0 && arrivedMs > firstMs + BAN_GRACE_MS;
  const left = Math.max(MIN_TOLERATED_REFUSALS, 3 * maxLimit) - late;
  const refused = isLate ? Math.min(requests, left + 1) : requests;
  return {
    ...quota,
    counts: Windows.add(quota.counts, 0, refused),
    refusals: { firstMs: firstMs || nowMs, late: late + (isLate ? refused : 0), maxLimit },
    bannedUntilMs: isLate && refused > left ? banEndMs(nowMs) : quota.bannedUntilMs,
  };
}

/** Whether outstanding leases could make room in every window that has none. */
function canComeBack({ counts, leases }: Quota, limits: Limits, nowMs: number): boolean {
  return Object.values(Windows.withLimits(counts, limits)).every(
    (window) =>
      Windows.remaining(window) > 0 ||
      leases.some((each) => each.grantedMs >= window.startMs && isOutstanding(each, nowMs)),
  );
}

function isOutstanding({ grantedMs, durationMs }: Lease, nowMs: number): boolean {
  return nowMs < grantedMs + durationMs + RELEASE_MS;
}

function grant(
  quota: Quota,
  limits: Limits,
  { id, lease }: AcquireRequest,
  nowMs: number,
): Lease | undefined {
  if (lease === undefined) return undefined;
  const windows = Windows.withLimits(quota.counts, limits);
  const outstanding = quota.leases.filter((each) => isOutstanding(each, nowMs));
  const most = Math.floor(Windows.room(windows) * LEASE_SHARE);
  const free = outstanding.reduce((left, each) => left - each.size, most);
  const [size, durationMs] = [Math.min(lease.size, free), Math.min(lease.durationMs, LEASE_MS)];
  const hasTime = nowMs + durationMs + LEASE_MARGIN_MS <= Windows.resetMs(windows.minute, "minute");
  const isLow = Object.values(windows).some((each) => Windows.remaining(each) < each.limit * LEASE_FLOOR);
  if (isLow || !hasTime || size < MIN_LEASE) return undefined;
  // If the clock has stepped back, the window is in the future; the lease was charged to it.
  return { id, size, grantedMs: Math.max(nowMs, windows.minute.startMs), durationMs };
}

function withBatch(recentBatches: Quota["recentBatches"], id: string, admitted: number) {
  const batches = new Map(recentBatches);
  batches.set(id, admitted);
  const [oldest = id] = batches.keys();
  if (batches.size > MAX_RECENT_BATCHES) batches.delete(oldest);
  return batches;
}

function chargeDay(days: readonly DayTotals[], requests: number, atMs: number): DayTotals[] {
  const startMs = Windows.startOfWindowMs("day", atMs);
  const { admitted = 0, refused = 0 } = days.find((each) => each.startMs === startMs) ?? {};
  const others = days.filter((each) => each.startMs !== startMs);
  return [...others, { startMs, admitted: admitted + requests, refused }];
}

/** The days among the last 30, which include today. */
function daysBefore({ day }: Counts, days: readonly DayTotals[]): DayTotals[] {
  return days.filter(({ startMs }) => startMs > day.startMs - DAYS_KEPT * DAY_MS);
}
