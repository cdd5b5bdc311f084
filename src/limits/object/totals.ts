// The totals of a key's days. Pure functions. A report of an isolate can belong to an earlier window or day.

import { formatDate } from "../../lib/rfc3339.ts";
import { DAY_MS, type Day, type Decided } from "../protocol.ts";
import { addEach, type ByWindow, type Counts, DAYS_KEPT, startOfWindowMs, sum } from "../windows.ts";

/** So many requests, admitted and refused, in the window that began at `startMs` (Unix time). */
export type Peak = { startMs: number; requests: number };

/** `latest`: of each window that is shorter than a day, the last two with requests. Their isolates may not have reported all requests yet. */
export interface Totals {
  days: readonly Day[];
  latest: ByWindow<readonly Peak[]>;
}

export const NO_TOTALS: Totals = { days: [], latest: {} };

const UNUSED_DAY = { admitted: 0, refusedBy: {}, busiest: {}, lastAdmittedMs: 0, lastRefusedMs: 0 };

/** A change of the totals; negative to take it back. */
export interface Charge extends Partial<Decided> {
  /** What the windows are charged: requests that were admitted, or leased. */
  charged?: number;
  /** When the last of the admitted requests came (Unix time); by default at the time of the change. */
  lastMs?: number;
}

/** Adds a change at `atMs` (Unix time). */
export function addToTotals(totals: Totals, counts: Counts, atMs: number, change: Charge): Totals {
  const { charged = 0, admitted = 0, refusedBy = {}, lastMs = atMs } = change;
  const refused = sum(refusedBy);
  const date = formatDate(atMs);
  const day = totals.days.find((each) => each.date === date) ?? { date, ...UNUSED_DAY };
  const { lastAdmittedMs, lastRefusedMs } = day;
  const changed: Day = {
    ...day,
    admitted: day.admitted + charged,
    refusedBy: addEach(day.refusedBy, refusedBy),
    lastAdmittedMs: admitted > 0 ? Math.max(lastAdmittedMs, lastMs) : lastAdmittedMs,
    lastRefusedMs: refused > 0 ? Math.max(lastRefusedMs, atMs) : lastRefusedMs,
  };
  const days = [...totals.days.filter((each) => each !== day), changed];
  const dates = days.map((each) => each.date).sort();
  const oldest = formatDate(Date.parse(dates.at(-1) ?? date) - (DAYS_KEPT - 1) * DAY_MS);
  const kept = { ...totals, days: days.filter((each) => each.date >= oldest) };
  return admitted + refused === 0 ? kept : addToLatest(kept, counts, atMs, admitted + refused);
}

/** The totals of the last DAYS_KEPT days with requests, in any order. */
export function daysOf({ days, latest }: Totals): readonly Day[] {
  return Object.entries(latest).reduce(
    (all, [name, peaks]) => peaks.reduce((known, peak) => withPeak(known, name, peak), all),
    days,
  );
}

/** Adds requests to the windows of a time, unless they are older than those of `latest`: then they are complete. */
function addToLatest(totals: Totals, counts: Counts, atMs: number, requests: number): Totals {
  let { days } = totals;
  const latest: Record<string, readonly Peak[]> = {};
  for (const name in counts) {
    const { seconds } = counts[name] as Counts[string];
    if (seconds * 1000 >= DAY_MS) continue;
    const startMs = startOfWindowMs(seconds, atMs);
    const known = totals.latest[name] ?? [];
    const same = known.find((each) => each.startMs === startMs);
    latest[name] = known;
    if (known.length === 2 && known.every((each) => each.startMs > startMs)) continue;
    const peak = { startMs, requests: (same?.requests ?? 0) + requests };
    const all = [...known.filter((each) => each !== same), peak].sort((a, b) => a.startMs - b.startMs);
    for (const complete of all.slice(0, -2)) days = withPeak(days, name, complete);
    latest[name] = all.slice(-2);
  }
  return { days, latest };
}

function withPeak(days: readonly Day[], name: string, { startMs, requests }: Peak): readonly Day[] {
  const date = formatDate(startMs);
  return days.map((each) =>
    each.date === date && (each.busiest[name] ?? 0) < requests
      ? { ...each, busiest: { ...each.busiest, [name]: requests } }
      : each,
  );
}
