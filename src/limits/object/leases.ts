// Leases: which one an isolate gets, and how many requests may still come back from those of all isolates.

import { LATE_MS, MAX_WAIT_MS, RATE_MS } from "../protocol.ts";
import {
  type ByWindow,
  giveBack,
  type Limits,
  resetMs,
  room,
  shortest,
  shortestLimit,
  withLimits,
} from "../windows.ts";
import type { GrantedLease, Isolate, Quota } from "./quota.ts";

/** The shortest lease. Longer: fewer calls at the end of a window; shorter: shorter waits there. */
const MIN_LEASE_MS = 300;
/** The first lease of an isolate: a burst often ends soon. Longer: fewer calls; shorter: shorter waits for the rest of a burst. */
const FIRST_LEASE_MS = 500;
/** Each further lease may last so many times as long as the one before. More: fewer calls; less: shorter waits in long bursts. */
const GROWTH = 2;
/** The longest lease of a key near a limit. Longer: fewer calls; shorter: shorter waits in a burst, and a smaller loss if isolates end. */
const LEASE_MS = 2_000;
/** A lease ends at least this long before its window, because a timer may be late by as much. */
const LEASE_MARGIN_MS = 5;
const MIN_LEASE = 2;
/** Isolates need so many recent requests; for a first lease more, because it is short. More: more calls; fewer: leases that save none. */
const MIN_RECENT = 3;
/** A lease has the size as if so many more requests had come in RATE_MS. More: fewer calls; fewer: a smaller loss if isolates end. */
const SPARE = 4;

/** A key is far from its limits if so many times its recent requests are left. More: more calls; less: longer waits in a sudden burst. */
const FAR = 90;
/**
 * Each lease of such a key. Longer: fewer calls; shorter: a request that has waited for a slow read or a repeated call before can also wait for
 * the lease's return, and is decided within MAX_WAIT_MS. Not longer than RATE_MS, in which an isolate's requests count as recent.
 */
const FAR_LEASE_MS = 3_500;
/** Isolates of such a key need so many recent requests. More: more waits; fewer: a lease for each pair of requests, which costs two calls. */
const FAR_MIN_RECENT = 2.1;

/** A lease with so many times more requests than it needs is not renewed. More: requests that nobody uses stay leased; fewer: more calls. */
const MOST_UNUSED = 2;
/** A lease ends before the window can be full: within this share of the time that the key's recent rate needs for that. */
const TIME_SHARE = 1 / 4;
/** What one isolate may take of the remaining requests. More: fewer calls; less: fewer requests that wait for its lease's end. */
const LEASE_SHARE = 1 / 2;
/** While the shortest window has less left than this share of its limit, isolates that share it get no lease. More: more calls; less: waits. */
const LAST_SHARE = 1 / 4;

/** How long a lease stays outstanding after its time: its isolate reports it by then, unless a call fails or the isolate has ended. */
const RELEASE_MS = 3_000;

/** How many of the requests that don't fit have to wait: as many as leases can make room for. */
export function undecided(quota: Quota, limits: Limits, requests: number, nowMs: number): number {
  const coming = comingBack(quota, limits, nowMs);
  // A request that waits may be decided in the next window. Then its place in this one stays free, so nobody must be refused for it.
  if (isLateInWindow(quota, nowMs)) return coming > 0 ? requests : 0;
  return Math.min(requests, coming);
}

/** Whether requests that have to wait now may be decided in the next window. */
export function isLateInWindow({ counts }: Quota, nowMs: number): boolean {
  return nowMs + MAX_WAIT_MS >= resetMs(shortest(counts));
}

/** How many requests would be admitted if all outstanding leases came back unused. */
export function comingBack(quota: Quota, limits: Limits, nowMs: number): number {
  return room(giveBack(withLimits(quota.counts, limits), outstanding(quota, nowMs)));
}

/** How many requests of each window are leased and may come back, without those of the lease `except`. */
export function outstanding(
  { counts, isolates }: Quota,
  nowMs: number,
  except?: GrantedLease,
): ByWindow<number> {
  const leased: Record<string, number> = {};
  for (const name in counts) leased[name] = 0;
  for (const { lease } of isolates.values()) {
    if (lease === undefined || lease === except) continue;
    if (nowMs >= endMs(lease) + RELEASE_MS) continue;
    for (const name in counts)
      if (lease.grantedMs >= (counts[name]?.startMs ?? 0))
        leased[name] = (leased[name] ?? 0) + lease.size - lease.used;
  }
  return leased;
}

/** When the next lease or the shortest window ends, or a lease has just ended, which is still to be reported. */
export function nextEndMs({ counts, isolates }: Quota, nowMs: number): number {
  const endsMs = [...isolates.values()].map(({ lease }) => (lease ? endMs(lease) : 0));
  return Math.min(...endsMs.filter((each) => each > nowMs - LATE_MS), resetMs(shortest(counts)));
}

function endMs({ renewedMs, durationMs }: GrantedLease): number {
  return renewedMs + durationMs;
}

/** Grants an isolate a lease, or renews the one that it holds. */
export function grant(
  quota: Quota,
  limits: Limits,
  isolate: Isolate,
  nowMs: number,
): GrantedLease | undefined {
  const windows = withLimits(quota.counts, limits);
  const window = shortest(windows);
  const { number, recent, leaseMs, lease: held } = isolate;
  const left = room(windows);
  const recentOfAll = recentRequests(quota, nowMs);
  // A lease of an earlier window ends by itself.
  const isOld = held !== undefined && held.grantedMs < window.startMs;
  const isLast = left < shortestLimit(windows) * LAST_SHARE && recentOfAll > recent;
  const isFar = left >= FAR * recentOfAll;
  const isRare = recent < (isFar ? FAR_MIN_RECENT : MIN_RECENT);
  if (isRare || nowMs < quota.unleasedUntilMs || isOld || isLast) return undefined;
  const fullMs = (left * RATE_MS) / recentOfAll;
  const leftMs = resetMs(window) - nowMs - LEASE_MARGIN_MS;
  const grownMs = Math.min(LEASE_MS, Math.max(FIRST_LEASE_MS, GROWTH * leaseMs));
  const untilFullMs = Math.max(MIN_LEASE_MS, fullMs * TIME_SHARE);
  const durationMs = Math.floor(Math.min(leftMs, isFar ? FAR_LEASE_MS : grownMs, untilFullMs));
  const wanted = Math.ceil(((recent + SPARE) * durationMs) / RATE_MS);
  const unused = held === undefined ? 0 : held.size - held.used;
  const more = Math.max(0, Math.min(wanted - unused, Math.floor(left * LEASE_SHARE)));
  // A lease that has become much too large is given back at its end. None is granted or renewed just before a window ends.
  const isUseful = durationMs >= MIN_LEASE_MS && unused + more >= MIN_LEASE && unused <= MOST_UNUSED * wanted;
  if (!isUseful) return undefined;
  // If the clock has stepped back, the window is in the future; the lease is charged to it.
  const granted = { id: number, size: 0, used: 0, grantedMs: Math.max(nowMs, window.startMs), ...held };
  return { ...granted, size: granted.size + more, durationMs, renewedMs: nowMs };
}

/** How many requests came within RATE_MS, by the isolates that have called since. */
function recentRequests({ isolates }: Quota, nowMs: number): number {
  let sum = 0;
  for (const { recent, seenMs } of isolates.values()) if (nowMs - seenMs < RATE_MS) sum += recent;
  return sum;
}
