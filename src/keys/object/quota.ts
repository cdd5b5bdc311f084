// A key's quota in its object, and how a call changes it. Pure functions of (quota, limits, request, now).

import type { Counts, Limits } from "../../rate-limit/windows.ts";
import * as Windows from "../../rate-limit/windows.ts";
import type { AcquireRequest, AcquireResult, DayTotals, Lease, Status } from "../protocol.ts";
import { DAY_MS, DAYS_KEPT, LATE_MS, LEASE_MS, MAX_WAIT_MS } from "../protocol.ts";

/** How long a ban lasts. It is never extended; only an operator ends it earlier. */
export const BAN_MS = 10 * 60_000;
/** When a ban that begins at `nowMs` ends (both Unix time): a whole second. A later ban ends later, so the end identifies it. */
export const banEndMs = (nowMs: number) => Math.ceil((nowMs + BAN_MS) / 1000) * 1000;
/** A refusal counts towards a ban if its request arrived this long after the first refusal of its minute. */
export const BAN_GRACE_MS = 2_000;
/** How many such refusals a minute tolerates, or three times its largest limit if that is more. */
export const MIN_TOLERATED_REFUSALS = 180;

/** The shortest lease. Longer: fewer calls at the end of a window; shorter: shorter waits there. */
const MIN_LEASE_MS = 300;
/** A lease ends at least this long before its minute, because a timer may be late by as much. */
const LEASE_MARGIN_MS = 5;
const MIN_LEASE = 2;
/** Isolates with fewer recent requests get no lease: it would cost more calls than it saves. Two requests in a second are more. */
const MIN_RECENT = 1.75;
/** A lease is for twice the recent requests and some more: as much as the rate varies, so that it ends by its time. */
const HEADROOM = 2;
const RESERVE = 8;
/** A lease ends before the window can be full: within this share of the time that the key's recent rate needs for that. */
const TIME_SHARE = 1 / 4;
/** What one isolate may take of the remaining requests. More: fewer calls; less: fewer requests that wait for its lease's end. */
const LEASE_SHARE = 1 / 2;

/** How long a lease stays outstanding after its time: its isolate reports it by then, unless a call fails or the isolate has ended. */
const RELEASE_MS = 3_000;
/** How long the object remembers an isolate. Longer: more to store; shorter: after an outage a lost call counts twice. */
const CLIENT_KEPT_MS = 60_000;

/** A lease as the object knows it. All of `size` is charged; `used` is what its isolate has reported. */
type GrantedLease = Lease & { used: number; renewedMs: number };

/** An isolate: its latest call, with what that was charged, and its lease. */
interface Client {
  number: number;
  admitted: number;
  refused: number;
  /** How many of the refused count towards a ban. */
  late: number;
  /** See AcquireRequest. */
  recent: number;
  seenMs: number;
  lease?: GrantedLease | undefined;
}

const NEW_CLIENT: Client = { number: 0, admitted: 0, refused: 0, late: 0, recent: 0, seenMs: 0 };

export interface Quota {
  /** Grows with every change; at least the time of the last change (Unix time). */
  revision: number;
  counts: Counts;
  /** Of the minute: the time of the first refusal (Unix time, or 0), the refusals that count towards a ban, the largest limit. */
  refusals: { firstMs: number; late: number; maxLimit: number };
  /** Until then (Unix time) nothing is leased: what comes back, or is new, is for requests that had to wait. */
  unleasedUntilMs: number;
  /** Unix time, or 0. */
  bannedUntilMs: number;
  /** By id, in the order of their latest calls. */
  clients: ReadonlyMap<string, Client>;
  pastDays: readonly DayTotals[];
}

export const UNUSED_QUOTA: Quota = {
  revision: 0,
  counts: { minute: Windows.UNUSED_COUNT, day: Windows.UNUSED_COUNT },
  refusals: { firstMs: 0, late: 0, maxLimit: 0 },
  unleasedUntilMs: 0,
  bannedUntilMs: 0,
  clients: new Map(),
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
    pastDays: isNewDay ? daysBefore(counts, [...quota.pastDays, over]) : quota.pastDays,
  };
}

/** The status, for an isolate with the lease `own`. `quota` must be rolled over to `nowMs`. */
export function statusOf(quota: Quota, limits: Limits, nowMs: number, own?: GrantedLease): Status {
  const { revision, counts, refusals, bannedUntilMs } = quota;
  return {
    revision,
    nowMs,
    windows: Windows.withLimits(counts, limits),
    leased: outstanding(quota, nowMs, own),
    firstRefusalMs: refusals.firstMs,
    ...(nowMs < bannedUntilMs && { bannedUntilMs }),
  };
}

/**
 * Applies the report, admits the requests that fit, refuses those for which no lease can make room, and grants a lease. `delayMs`: how
 * long requests may have waited until now; a lease has to come back so much earlier.
 */
export function acquire(quota: Quota, limits: Limits, request: AcquireRequest, nowMs: number, delayMs = 0) {
  const rolled = rollOver(quota, limits, nowMs);
  const known = rolled.clients.get(request.client) ?? NEW_CLIENT;
  const answer = (after: Quota, admitted: number, refused: number, lease?: GrantedLease) => {
    const result: AcquireResult = {
      ...statusOf(after, limits, nowMs, after.clients.get(request.client)?.lease),
      admitted,
      refused,
      ...(admitted + refused < request.requests && { retryMs: nextEndMs(after, nowMs) }),
      ...(lease && { lease }),
    };
    return { result, quota: after };
  };
  // Nobody waits for the result of an overtaken call.
  if (request.number < known.number) return answer(rolled, 0, 0);
  if (request.number === known.number) {
    const lease = known.lease?.renewedMs === known.seenMs ? known.lease : undefined;
    const isUndecided = known.refused > 0 && comingBack(rolled, limits, nowMs) > 0;
    if (!isUndecided) return answer(rolled, known.admitted, known.refused, lease);
    // A new window has begun, or an isolate has got a lease, so there may be room again.
    const uncounted = takeBack(rolled, { ...known, admitted: 0 });
    const clients = withClient(rolled.clients, request.client, { ...known, refused: 0, late: 0 }, nowMs);
    return answer(revised({ ...uncounted, clients }, nowMs), known.admitted, 0, lease);
  }

  const before = applyReport(rolled, request, nowMs);
  // During a ban nothing is counted, and the isolate refuses.
  const isBanned = nowMs < before.bannedUntilMs;
  const { requests, wantsLease } = isBanned ? { requests: 0, wantsLease: false } : request;
  const admitted = Math.min(requests, Windows.room(Windows.withLimits(before.counts, limits)));
  const rest = requests - admitted;
  const charged = { ...before, counts: Windows.add(before.counts, admitted, 0) };
  const waiting = undecided(charged, limits, rest, nowMs);
  const refused = rest - waiting;
  const late = isLate(before.refusals.firstMs, request.arrivedMs) ? refused : 0;
  const { refusals, bannedUntilMs } = refused > 0 ? countTowardsBan(before, late, nowMs) : before;
  const minuteEndMs = Windows.resetMs(before.counts.minute, "minute");
  const extraMs = waiting > 0 && isLateInMinute(before, nowMs) ? MAX_WAIT_MS : 0;
  const unleasedUntilMs = Math.max(before.unleasedUntilMs, rest > 0 ? minuteEndMs + extraMs : 0);
  const counts = Windows.add(charged.counts, 0, refused);
  const counted = { ...before, counts, refusals, bannedUntilMs, unleasedUntilMs };
  const { lease: held } = before.clients.get(request.client) ?? NEW_CLIENT;
  const { number, recent } = request;
  const client: Client = { number, admitted, refused, late, recent, seenMs: nowMs, lease: held };
  const clients = withClient(before.clients, request.client, client, nowMs);
  const lease = wantsLease ? grant({ ...counted, clients }, limits, client, nowMs, delayMs) : undefined;
  const isSame = before === rolled && unleasedUntilMs === before.unleasedUntilMs;
  if (isSame && admitted + refused === 0 && lease === undefined) return answer(rolled, 0, 0);
  if (lease !== undefined) clients.set(request.client, { ...client, lease });
  const leased = lease === undefined ? 0 : lease.size - (held?.size ?? 0);
  const after = { ...counted, counts: Windows.add(counted.counts, leased, 0), clients };
  return answer(revised(after, nowMs), admitted, refused, lease);
}

/** Whether the object has counted this call of the client, or a later one. */
export function isCounted({ clients }: Quota, { client, number }: AcquireRequest): boolean {
  return number <= (clients.get(client)?.number ?? 0);
}

/** Applies what a client has used of its lease, and its local decisions. Returns `quota` itself if nothing changes. */
function applyReport(quota: Quota, request: AcquireRequest, nowMs: number): Quota {
  const known = quota.clients.get(request.client) ?? NEW_CLIENT;
  let after = quota;
  const { lease } = known;
  if (lease !== undefined) {
    const named = request.lease?.id === lease.id ? request.lease : { used: lease.used, isOver: true };
    if (named.isOver) after = charge(after, lease.grantedMs, named.used - lease.size, 0);
    if (named.isOver || named.used > lease.used) {
      const client = { ...known, lease: named.isOver ? undefined : { ...lease, used: named.used } };
      after = { ...after, clients: withClient(after.clients, request.client, client, nowMs) };
    }
  }
  for (const { number, atMs, arrivedMs, admitted, refused, ...rest } of request.decisions) {
    if (number < known.number) continue;
    if (number === known.number) after = takeBack(after, known);
    after = charge(after, atMs, admitted, refused);
    // Another isolate may have refused first.
    const late = isLate(after.refusals.firstMs, arrivedMs) ? refused : rest.late;
    if (refused > 0 && atMs >= after.counts.minute.startMs) after = countTowardsBan(after, late, nowMs);
  }
  return after;
}

/** Adds requests that were decided at `atMs` to the windows of that time. */
function charge(quota: Quota, atMs: number, admitted: number, refused: number): Quota {
  const counts = Windows.mapWindows(quota.counts, (each) =>
    atMs < each.startMs ? each : { ...each, used: each.used + admitted, refused: each.refused + refused },
  );
  const { pastDays } = quota;
  if (atMs >= counts.day.startMs) return { ...quota, counts };
  const startMs = Windows.startOfWindowMs("day", atMs);
  const day = pastDays.find((each) => each.startMs === startMs) ?? { startMs, admitted: 0, refused: 0 };
  const changed = { startMs, admitted: day.admitted + admitted, refused: day.refused + refused };
  const others = pastDays.filter((each) => each !== day);
  return { ...quota, counts, pastDays: daysBefore(counts, [...others, changed]) };
}

/** Takes back what the latest call of a client was charged. */
function takeBack(quota: Quota, { seenMs, admitted, refused, late }: Client): Quota {
  const { refusals, ...after } = charge(quota, seenMs, -admitted, -refused);
  const counted = seenMs < after.counts.minute.startMs ? 0 : late;
  return { ...after, refusals: { ...refusals, late: refusals.late - counted } };
}

/** Ends a ban that ends by `liftedUntilMs`. The refusals that led to it don't count any more. */
export function liftBan(quota: Quota, liftedUntilMs: number): Quota {
  if (quota.bannedUntilMs === 0 || quota.bannedUntilMs > liftedUntilMs) return quota;
  return revised({ ...quota, bannedUntilMs: 0, refusals: { ...quota.refusals, late: 0 } }, 0);
}

function revised(quota: Quota, nowMs: number): Quota {
  return { ...quota, revision: Math.max(quota.revision + 1, nowMs) };
}

/** Whether the refusal of a request that arrived at `arrivedMs` counts towards a ban (all Unix time; `firstMs` 0 if none). */
export function isLate(firstMs: number, arrivedMs: number): boolean {
  return firstMs > 0 && arrivedMs > firstMs + BAN_GRACE_MS;
}

/** Counts late refusals of this minute. If it had none yet, this is the first. */
function countTowardsBan(quota: Quota, requests: number, nowMs: number): Quota {
  const { refusals, bannedUntilMs } = quota;
  const late = refusals.late + requests;
  const isBan = late > toleratedRefusals(refusals.maxLimit) && nowMs >= bannedUntilMs;
  return {
    ...quota,
    refusals: { ...refusals, firstMs: refusals.firstMs || nowMs, late },
    bannedUntilMs: isBan ? banEndMs(nowMs) : bannedUntilMs,
  };
}

function toleratedRefusals(maxLimit: number): number {
  return Math.max(MIN_TOLERATED_REFUSALS, 3 * maxLimit);
}

/** How many of the requests that don't fit have to wait: as many as leases can make room for. */
function undecided(quota: Quota, limits: Limits, requests: number, nowMs: number): number {
  const coming = comingBack(quota, limits, nowMs);
  // A request that waits may be decided in the next minute. Then its place in this one stays free, so nobody must be refused for it.
  if (isLateInMinute(quota, nowMs)) return coming > 0 ? requests : 0;
  return Math.min(requests, coming);
}

/** Whether requests that have to wait now may be decided in the next minute. */
function isLateInMinute({ counts }: Quota, nowMs: number): boolean {
  return nowMs + MAX_WAIT_MS >= Windows.resetMs(counts.minute, "minute");
}

/** How many requests would be admitted if all outstanding leases came back unused. */
function comingBack(quota: Quota, limits: Limits, nowMs: number): number {
  const leased = outstanding(quota, nowMs);
  return Windows.room(
    Windows.mapWindows(Windows.withLimits(quota.counts, limits), (each, name) => ({
      ...each,
      used: each.used - leased[name],
    })),
  );
}

/** How many requests of each window are leased and may come back, without those of the lease `except`. */
function outstanding({ counts, clients }: Quota, nowMs: number, except?: GrantedLease) {
  const leased = { minute: 0, day: 0 };
  for (const { lease } of clients.values()) {
    if (lease === undefined || lease === except) continue;
    if (nowMs >= lease.renewedMs + lease.durationMs + RELEASE_MS) continue;
    if (lease.grantedMs >= counts.minute.startMs) leased.minute += lease.size - lease.used;
    if (lease.grantedMs >= counts.day.startMs) leased.day += lease.size - lease.used;
  }
  return leased;
}

/** When the next lease or the minute ends. A lease that has just ended is still to be reported; an older one should have been. */
function nextEndMs({ counts, clients }: Quota, nowMs: number): number {
  const endsMs = [...clients.values()].map(({ lease }) => (lease ? lease.renewedMs + lease.durationMs : 0));
  return Math.min(
    ...endsMs.filter((each) => each > nowMs - LATE_MS),
    Windows.resetMs(counts.minute, "minute"),
  );
}

/** Grants a client a lease, or renews the one that it holds. */
function grant(
  quota: Quota,
  limits: Limits,
  client: Client,
  nowMs: number,
  delayMs: number,
): GrantedLease | undefined {
  const { minute, day } = Windows.withLimits(quota.counts, limits);
  const { number, recent, lease: held } = client;
  // A lease of an earlier minute ends by itself.
  const isOld = held !== undefined && held.grantedMs < minute.startMs;
  if (recent < MIN_RECENT || nowMs < quota.unleasedUntilMs || isOld) return undefined;
  const left = Windows.room({ minute, day });
  const fullMs = (left * LEASE_MS) / recentOfAll(quota, nowMs);
  const leftMs = Windows.resetMs(minute, "minute") - nowMs - LEASE_MARGIN_MS;
  const durationMs = Math.floor(
    Math.min(leftMs, LEASE_MS - delayMs, Math.max(MIN_LEASE_MS, fullMs * TIME_SHARE)),
  );
  const wanted = Math.ceil(((HEADROOM * recent + RESERVE) * durationMs) / LEASE_MS);
  const unused = held === undefined ? 0 : held.size - held.used;
  const more = Math.max(0, Math.min(wanted - unused, Math.floor(left * LEASE_SHARE)));
  // A lease that has become much too large is given back at its end. None is granted or renewed just before a minute ends.
  const isUseful = durationMs >= MIN_LEASE_MS && unused + more >= MIN_LEASE && unused <= HEADROOM * wanted;
  if (!isUseful) return undefined;
  // If the clock has stepped back, the window is in the future; the lease is charged to it.
  const granted = { id: number, size: 0, used: 0, grantedMs: Math.max(nowMs, minute.startMs), ...held };
  return { ...granted, size: granted.size + more, durationMs, renewedMs: nowMs };
}

/** How many requests came within LEASE_MS, by the isolates that have called since. */
function recentOfAll({ clients }: Quota, nowMs: number): number {
  let sum = 0;
  for (const { recent, seenMs } of clients.values()) if (nowMs - seenMs < LEASE_MS) sum += recent;
  return sum;
}

/** Puts a client last, and forgets those that were not seen for long. */
function withClient(clients: Quota["clients"], id: string, client: Client, nowMs: number) {
  const all = new Map(clients);
  all.delete(id);
  for (const [each, { seenMs }] of all) {
    if (Math.abs(nowMs - seenMs) < CLIENT_KEPT_MS) break;
    all.delete(each);
  }
  return all.set(id, client);
}

/** The days among the last 30, which include today. */
function daysBefore({ day }: Counts, days: readonly DayTotals[]): DayTotals[] {
  return days.filter(({ startMs }) => startMs > day.startMs - DAYS_KEPT * DAY_MS);
}
