// The totals of a key's days. Pure functions. A report of an isolate can belong to an earlier minute or day.

import { DAY_MS, DAYS_KEPT, type DayTotals, type Decided } from "../protocol.ts";
import { startOfWindowMs } from "../windows.ts";

/** `minutes`: the last two minutes with requests. Their isolates may not have reported all requests yet. */
export interface Totals {
  days: readonly DayTotals[];
  minutes: readonly { startMs: number; requests: number }[];
}

export const NO_TOTALS: Totals = { days: [], minutes: [] };

const UNUSED_DAY = {
  admitted: 0,
  refusedByMinute: 0,
  refusedByDay: 0,
  busiestMinute: 0,
  lastAdmittedMs: 0,
  lastRefusedMs: 0,
};

/** A change of the totals; negative to take it back. */
export interface Charge extends Partial<Decided> {
  /** What the windows are charged: requests that were admitted, or leased. */
  charged?: number;
  /** When the last of the admitted requests came (Unix time); by default at the time of the change. */
  lastMs?: number;
}

/** Adds a change at `atMs` (Unix time). */
export function addToTotals(totals: Totals, atMs: number, change: Charge): Totals {
  const { charged = 0, admitted = 0, refused = 0, refusedByDay = 0, lastMs = atMs } = change;
  const startMs = startOfWindowMs("day", atMs);
  const day = totals.days.find((each) => each.startMs === startMs) ?? { startMs, ...UNUSED_DAY };
  const { lastAdmittedMs, lastRefusedMs } = day;
  const changed = {
    ...day,
    admitted: day.admitted + charged,
    refusedByMinute: day.refusedByMinute + refused - refusedByDay,
    refusedByDay: day.refusedByDay + refusedByDay,
    lastAdmittedMs: admitted > 0 ? Math.max(lastAdmittedMs, lastMs) : lastAdmittedMs,
    lastRefusedMs: refused > 0 ? Math.max(lastRefusedMs, atMs) : lastRefusedMs,
  };
  const days = [...totals.days.filter((each) => each !== day), changed];
  const newestMs = Math.max(...days.map((each) => each.startMs));
  const kept = days.filter((each) => each.startMs > newestMs - DAYS_KEPT * DAY_MS);
  return addToMinute({ ...totals, days: kept }, startOfWindowMs("minute", atMs), admitted + refused);
}

/** The totals of the last DAYS_KEPT days with requests, in any order. */
export function daysOf({ days, minutes }: Totals): readonly DayTotals[] {
  return minutes.reduce(withMinute, days);
}

/** Adds requests to a minute, unless it is older than those of `minutes`: then it is complete. */
function addToMinute({ days, minutes }: Totals, startMs: number, requests: number): Totals {
  const known = minutes.find((each) => each.startMs === startMs);
  if (
    requests === 0 ||
    (known === undefined && minutes.length === 2 && minutes.every((each) => each.startMs > startMs))
  )
    return { days, minutes };
  const minute = { startMs, requests: (known?.requests ?? 0) + requests };
  const all = [...minutes.filter((each) => each !== known), minute].sort((a, b) => a.startMs - b.startMs);
  const complete = all.slice(0, -2);
  return { days: complete.reduce(withMinute, days), minutes: all.slice(-2) };
}

function withMinute(days: readonly DayTotals[], { startMs, requests }: Totals["minutes"][number]) {
  const dayMs = startOfWindowMs("day", startMs);
  return days.map((each) =>
    each.startMs === dayMs && each.busiestMinute < requests ? { ...each, busiestMinute: requests } : each,
  );
}
