// A key's quota, as its object has it in memory: counts, ban, isolates with their leases, totals of days. This file rolls it over to
// new windows, and has the changes that the other modules share. Pure functions, like all that decide about it: bans.ts, leases.ts,
// acquire.ts.

import type { Decided, Lease } from "../protocol.ts";
import {
  add,
  type Counts,
  type Lengths,
  type Limits,
  rollOver as rollOverCounts,
  shortest,
  shortestLimit,
  sum,
  unused,
  withLimits,
} from "../windows.ts";
import { addToTotals, type Charge, NO_TOTALS, type Totals } from "./totals.ts";

/** How long the object remembers an isolate. Longer: more to store; shorter: after an outage a lost call counts twice. */
const ISOLATE_KEPT_MS = 60_000;

/** A lease as the object knows it. All of `size` is charged; `used` is what its isolate has reported. */
export type GrantedLease = Lease & { used: number; renewedMs: number };

/** An isolate: its latest call, with what that was charged, and its lease. */
export interface Isolate extends Decided {
  number: number;
  /** See AcquireRequest. */
  recent: number;
  seenMs: number;
  /** How many requests it has reported in SHARE_MS, as a moving average. */
  lately: number;
  /** How long its latest lease was to last, or 0 if it has had none lately. */
  leaseMs: number;
  lease?: GrantedLease | undefined;
}

export const NEW_ISOLATE: Isolate = {
  number: 0,
  admitted: 0,
  refusedBy: {},
  recent: 0,
  seenMs: 0,
  lately: 0,
  leaseMs: 0,
};

export interface Quota {
  /** Grows with every change; at least the time of the last call that has changed something (Unix time). */
  revision: number;
  counts: Counts;
  /** Of the shortest window: the time of the first refusal (Unix time, or 0), the refusals that count towards a ban, the largest limit. */
  refusals: { firstMs: number; late: number; maxLimit: number };
  /** Until then (Unix time) nothing is leased: requests that had to wait come first. */
  unleasedUntilMs: number;
  /** Unix time, or 0. */
  bannedUntilMs: number;
  /** How many requests isolates have reported so far: a difference of two values is a number of requests. */
  reported: number;
  /** By id, in the order of their latest calls. */
  isolates: ReadonlyMap<string, Isolate>;
  totals: Totals;
}

const NO_REFUSALS = { firstMs: 0, late: 0, maxLimit: 0 };

/** Throws RangeError like `unused`. */
export function unusedQuota(lengths: Lengths): Quota {
  return {
    revision: 0,
    counts: unused(lengths),
    refusals: NO_REFUSALS,
    unleasedUntilMs: 0,
    bannedUntilMs: 0,
    reported: 0,
    isolates: new Map(),
    totals: NO_TOTALS,
  };
}

/** The quota as of `nowMs`: starts new windows. */
export function rollOver(quota: Quota, limits: Limits, nowMs: number): Quota {
  const counts = rollOverCounts(quota.counts, nowMs);
  const isSame = shortest(counts).startMs === shortest(quota.counts).startMs;
  const refusals = isSame ? quota.refusals : NO_REFUSALS;
  const limit = shortestLimit(withLimits(counts, limits));
  return { ...quota, counts, refusals: { ...refusals, maxLimit: Math.max(refusals.maxLimit, limit) } };
}

/** Charges requests that were decided at `atMs` (Unix time) to the windows and the day of that time. */
export function charge(quota: Quota, atMs: number, change: Charge): Quota {
  const { charged = 0, admitted = 0, refusedBy = {} } = change;
  const refused = sum(refusedBy);
  if (charged === 0 && admitted === 0 && refused === 0) return quota;
  const totals = addToTotals(quota.totals, quota.counts, atMs, change);
  const reported = quota.reported + admitted + refused;
  return { ...quota, counts: add(quota.counts, charged, atMs), reported, totals };
}

export function revised(quota: Quota, nowMs: number): Quota {
  return { ...quota, revision: Math.max(quota.revision + 1, nowMs) };
}

/** Puts an isolate last, and forgets those that were not seen for long. One without an id is not remembered. */
export function withIsolate(isolates: Quota["isolates"], id: string, isolate: Isolate, nowMs: number) {
  const all = new Map(isolates);
  all.delete(id);
  for (const [each, { seenMs }] of all) {
    if (Math.abs(nowMs - seenMs) < ISOLATE_KEPT_MS) break;
    all.delete(each);
  }
  return id === "" ? all : all.set(id, isolate);
}
