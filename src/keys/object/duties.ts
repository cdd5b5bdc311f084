// What the alarm of a key's object has to do, and when: record a ban and usage, and log alerts. Pure functions.

import { formatDate } from "../../lib/rfc3339.ts";
import type { DayTotals } from "../protocol.ts";
import { leasedOn } from "./leases.ts";
import type { Quota } from "./quota.ts";
import { type Alerted, NO_ALERTS, newAlerts, withLimit } from "./quota-alert.ts";
import { afterChange, NOTHING_UNRECORDED, type Unrecorded, USAGE_EVERY_MS } from "./usage-record.ts";

export const NEVER = Number.POSITIVE_INFINITY;

/** `banMs`: when the alarm records the ban (Unix time), or NEVER. */
export interface Duties {
  banMs: number;
  usage: Unrecorded;
  alerted: Alerted;
}

export const NO_DUTIES: Duties = { banMs: NEVER, usage: NOTHING_UNRECORDED, alerted: NO_ALERTS };

/** When the alarm has something to do (Unix time): `otherwiseMs` if all usage is recorded. */
export function dutyMs({ banMs, usage }: Duties, otherwiseMs = NEVER): number {
  return Math.min(banMs, usage.days.length > 0 ? usage.dueMs : otherwiseMs);
}

/** Whether the platform has given up the alarm, as it does after several failures. */
export function isOverdue(duties: Duties, nowMs: number): boolean {
  return dutyMs(duties) < nowMs - USAGE_EVERY_MS;
}

/** After the quota has changed, with the current limit of a day. */
export function withChange(
  duties: Duties,
  before: Quota,
  after: Quota,
  dayLimit: number,
  nowMs: number,
): Duties {
  const changed = {
    banMs: after.bannedUntilMs > before.bannedUntilMs ? nowMs : duties.banMs,
    usage: afterChange(duties.usage, before.totals, after.totals, nowMs),
    alerted: withLimit(duties.alerted, after.counts.day.startMs, dayLimit),
  };
  return withAlertAtOnce(changed, after, nowMs);
}

/** An alert of today does not wait for the next record of usage. */
export function withAlertAtOnce(duties: Duties, quota: Quota, nowMs: number): Duties {
  const { usage, alerted } = duties;
  const { startMs, used } = quota.counts.day;
  if (dueAlerts(alerted, quota, { startMs, admitted: used }, nowMs).length === 0) return duties;
  const days = [...usage.days.filter((each) => each !== startMs), startMs];
  return { ...duties, usage: { days, dueMs: Math.min(usage.dueMs, nowMs) } };
}

/** The alerts of a day that are due. What is leased may come back. */
export function dueAlerts(
  alerted: Alerted,
  quota: Quota,
  day: Pick<DayTotals, "startMs" | "admitted">,
  nowMs: number,
) {
  // Most calls need not look at the leases.
  if (newAlerts(alerted, day).length === 0) return [];
  const { startMs } = day;
  const admitted = day.admitted - leasedOn(quota, startMs, nowMs);
  return newAlerts(alerted, { startMs, admitted }).map(({ percent, limit }) => {
    return { day: formatDate(startMs), percent, admitted, limit };
  });
}
