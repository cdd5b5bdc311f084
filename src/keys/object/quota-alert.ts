// Alerts of days on which a key has used much of its limit: each percentage once a day.

import type { DayTotals } from "../protocol.ts";

const ALERT_PERCENTAGES = [80, 100];

/** A report that comes after midnight may belong to the day before. */
const DAYS = 2;

/** The latest days with an alert, at most DAYS, in order, and the largest percentage of each. */
export type Alerted = readonly { startMs: number; percent: number }[];

export const NO_ALERTS: Alerted = [];

/** The percentages of its limit that a day has reached without an alert. */
export function newAlerts(
  alerted: Alerted,
  { startMs, admitted }: Pick<DayTotals, "startMs" | "admitted">,
  limit: number,
): number[] {
  // An earlier day may have had its alerts before those of the days that are known.
  if (alerted.length === DAYS && alerted.every((each) => each.startMs > startMs)) return [];
  const percent = alerted.find((each) => each.startMs === startMs)?.percent ?? 0;
  return ALERT_PERCENTAGES.filter((each) => each > percent && admitted * 100 >= each * limit);
}

/** After an alert of a day. */
export function withAlert(alerted: Alerted, startMs: number, percent: number): Alerted {
  const others = alerted.filter((each) => each.startMs !== startMs);
  return [...others, { startMs, percent }].sort((a, b) => a.startMs - b.startMs).slice(-DAYS);
}
