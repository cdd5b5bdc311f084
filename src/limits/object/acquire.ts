// How a call changes a quota: it applies the isolate's report, counts a batch, and grants a lease. A repeated call is not counted again.

import { type AcquireRequest, type AcquireResult, MAX_WAIT_MS, RATE_MS, type Status } from "../protocol.ts";
import {
  fullWindows,
  type Limits,
  mapWindows,
  refusingWindow,
  resetMs,
  room,
  shortest,
  startOfWindowMs,
  sum,
  withLimits,
} from "../windows.ts";
import { countTowardsBan, late } from "./bans.ts";
import { comingBack, grant, isLateInWindow, nextEndMs, outstanding, undecided } from "./leases.ts";
import {
  charge,
  type GrantedLease,
  type Isolate,
  NEW_ISOLATE,
  type Quota,
  revised,
  rollOver,
  withIsolate,
} from "./quota.ts";
import { latelyAt, shareOf } from "./shares.ts";

/** Applies the report, admits the requests that fit, refuses those for which no lease can make room, and grants a lease. */
export function acquire(quota: Quota, limits: Limits, request: AcquireRequest, nowMs: number) {
  const rolled = rollOver(quota, limits, nowMs);
  const known = rolled.isolates.get(request.isolate) ?? NEW_ISOLATE;
  const answer = (after: Quota, admitted: number, refused: number, lease?: GrantedLease, reported = 0) => {
    const result: AcquireResult = {
      ...statusOf(after, limits, nowMs, after.isolates.get(request.isolate)?.lease),
      share: shareOf(after, request.isolate, reported, nowMs),
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
    const refused = sum(known.refusedBy);
    const isUndecided = refused > 0 && comingBack(rolled, limits, nowMs) > 0;
    if (!isUndecided) return answer(rolled, known.admitted, refused, lease);
    // A new window may have begun, or the limit may be higher: a refusal must not name a window that has room.
    const uncounted = takeBack(rolled, { ...known, admitted: 0 });
    const isolate = { ...known, refusedBy: {} };
    const isolates = withIsolate(rolled.isolates, request.isolate, isolate, nowMs);
    return answer(revised({ ...uncounted, isolates }, nowMs), known.admitted, 0, lease);
  }

  const before = applyReport(rolled, request, nowMs);
  // During a ban nothing is counted, and the isolate refuses.
  const isBanned = nowMs < before.bannedUntilMs;
  const requests = isBanned ? 0 : request.requests;
  // A lease of which calls say nothing stays charged as used, so their isolate gets no other one.
  const wantsLease = request.wantsLease && request.lease !== undefined && !isBanned;
  const admitted = Math.min(requests, room(withLimits(before.counts, limits)));
  const rest = requests - admitted;
  // If the clock has stepped back, the window is in the future.
  const atMs = Math.max(nowMs, shortest(before.counts).startMs);
  const charged = charge(before, atMs, { charged: admitted, admitted });
  const waiting = undecided(charged, limits, rest, nowMs);
  const refused = rest - waiting;
  const full = () => fullWindows(withLimits(charged.counts, limits), outstanding(charged, nowMs));
  const refusedBy = refused > 0 ? { [refusingWindow(full())]: refused } : {};
  const all = charge(charged, atMs, { refusedBy });
  const judged = refused > 0 ? countTowardsBan(all, refused, nowMs, nowMs) : all;
  const endMs = resetMs(shortest(before.counts));
  const extraMs = waiting > 0 && isLateInWindow(before, nowMs) ? MAX_WAIT_MS : 0;
  const unleasedUntilMs = Math.max(before.unleasedUntilMs, rest > 0 ? endMs + extraMs : 0);
  const counted = { ...judged, unleasedUntilMs };
  const held = before.isolates.get(request.isolate)?.lease;
  const { number, recent } = request;
  const leaseMs = Math.abs(nowMs - known.seenMs) < RATE_MS ? known.leaseMs : 0;
  const reported = Math.max(0, counted.reported - rolled.reported);
  const lately = latelyAt(known, nowMs) + reported;
  const decided = { number, admitted, refusedBy };
  const isolate = { ...decided, recent, lately, seenMs: nowMs, leaseMs, lease: held };
  const isolates = withIsolate(before.isolates, request.isolate, isolate, nowMs);
  const lease = wantsLease ? grant({ ...counted, isolates }, limits, isolate, nowMs) : undefined;
  const isSame = before === rolled && unleasedUntilMs === before.unleasedUntilMs;
  if (isSame && admitted + refused === 0 && lease === undefined) return answer(rolled, 0, 0);
  if (lease !== undefined) isolates.set(request.isolate, { ...isolate, leaseMs: lease.durationMs, lease });
  const leased = lease === undefined ? 0 : lease.size - (held?.size ?? 0);
  const after = { ...charge(counted, atMs, { charged: leased }), isolates };
  return answer(revised(after, nowMs), admitted, refused, lease, reported);
}

/** Whether the object has counted this call of the isolate, or a later one. */
export function isCounted({ isolates }: Quota, { isolate, number }: AcquireRequest): boolean {
  return number <= (isolates.get(isolate)?.number ?? 0);
}

/** The status, for an isolate with the lease `own`. `quota` must be rolled over to `nowMs`. */
export function statusOf(quota: Quota, limits: Limits, nowMs: number, own?: GrantedLease): Status {
  const { revision, counts, bannedUntilMs } = quota;
  return {
    revision,
    nowMs,
    windows: withLimits(counts, limits),
    leased: outstanding(quota, nowMs, own),
    ...(nowMs < bannedUntilMs && { bannedUntilMs }),
  };
}

/** Applies what an isolate has used of its lease, and its local decisions. Returns `quota` itself if nothing changes. */
function applyReport(quota: Quota, request: AcquireRequest, nowMs: number): Quota {
  const known = quota.isolates.get(request.isolate) ?? NEW_ISOLATE;
  let after = quota;
  const { lease } = known;
  if (lease !== undefined) {
    // The lease of a call that says nothing of it is charged as used.
    const silent = { id: lease.id, used: lease.size, isOver: true };
    const unknown = { id: lease.id, used: lease.used, isOver: true };
    const { lease: named = silent } = request;
    const report = named?.id === lease.id ? named : unknown;
    // After a crash, the object may not know of the last renewal. Its requests are part of the reservation.
    const used = Math.min(report.used, lease.size);
    const charged = report.isOver ? used - lease.size : 0;
    const { seconds } = shortest(after.counts);
    const lastMs = Math.min(nowMs, startOfWindowMs(seconds, lease.grantedMs) + seconds * 1000 - 1);
    after = charge(after, lease.grantedMs, { charged, admitted: used - lease.used, lastMs });
    if (report.isOver || used > lease.used) {
      const isolate = { ...known, lease: report.isOver ? undefined : { ...lease, used } };
      after = { ...after, isolates: withIsolate(after.isolates, request.isolate, isolate, nowMs) };
    }
  }
  for (const { number, admitted, refusedBy, ...decision } of request.decisions) {
    // Each call has reported all batches before it, so those before the last executed one are applied.
    if (number < known.number) continue;
    // The isolate's clock may have stepped forward.
    const { startMs } = shortest(after.counts);
    const atMs = Math.min(decision.atMs, Math.max(nowMs, startMs));
    if (number === known.number) after = takeBack(after, known);
    // An empty one is stored too, with the number of this call: the call that it cancels may still arrive.
    after = { ...charge(after, atMs, { charged: admitted, admitted, refusedBy }) };
    const refused = sum(refusedBy);
    if (refused > 0 && atMs >= startMs) after = countTowardsBan(after, refused, atMs, nowMs);
  }
  return after;
}

/** Takes back what the latest call of an isolate was charged. */
function takeBack(quota: Quota, { seenMs, admitted, refusedBy }: Isolate): Quota {
  const taken = {
    charged: -admitted,
    admitted: -admitted,
    refusedBy: mapWindows(refusedBy, (refused) => -refused),
  };
  const after = charge(quota, seenMs, taken);
  const counted = seenMs < shortest(after.counts).startMs ? 0 : late(quota, sum(refusedBy), seenMs);
  return { ...after, refusals: { ...after.refusals, late: Math.max(0, after.refusals.late - counted) } };
}
