// Alerts of days on which a key has used much of its limit: each percentage once a day.

import type { DayTotals } from "../protocol.ts";

const ALERT_PERCENTAGES = [80, 100];

/** A report that comes after midnight may belong to the day before. */
const DAYS = 2;

/** A day with the last limit that it had, which later changes of the plan don't touch, and the largest percentage with an alert. */
type JudgedDay = { startMs: number; limit: number; percent: number };

/** The latest DAYS days, and those that are not recorded yet, in order. */
export type Alerted = readonly JudgedDay[];

export const NO_ALERTS: Alerted = [];

/** The percentages of its limit that a day has reached without an alert. */
export function newAlerts(
  alerted: Alerted,
  { startMs, admitted }: Pick<DayTotals, "startMs" | "admitted">,
): { percent: number; limit: number }[] {
  const day = judgedDay(alerted, startMs);
  if (day === undefined) return [];
  const { limit } = day;
  const percentages = ALERT_PERCENTAGES.filter(
    (each) => each > day.percent && admitted * 100 >= each * limit,
  );
  return percentages.map((percent) => ({ percent, limit }));
}

/** With the current limit of today. */
export function withLimit(alerted: Alerted, startMs: number, limit: number): Alerted {
  const day = alerted.find((each) => each.startMs === startMs);
  return day?.limit === limit ? alerted : withDay(alerted, { startMs, percent: day?.percent ?? 0, limit });
}

/** After an alert of a day. */
export function withAlert(alerted: Alerted, startMs: number, percent: number): Alerted {
  const day = judgedDay(alerted, startMs);
  return day === undefined ? alerted : withDay(alerted, { ...day, percent });
}

/** Without old days, unless they are `unrecorded`. */
export function withoutOld(alerted: Alerted, unrecorded: readonly number[]): Alerted {
  return alerted.filter(
    ({ startMs }, index) => index >= alerted.length - DAYS || unrecorded.includes(startMs),
  );
}

/** Undefined for a day before those that are known: it may have had its alerts. */
function judgedDay(alerted: Alerted, startMs: number): JudgedDay | undefined {
  const known = alerted.find((each) => each.startMs === startMs);
  const [oldest] = alerted;
  if (known !== undefined || oldest === undefined) return known;
  if (alerted.length >= DAYS && startMs < oldest.startMs) return undefined;
  // The only requests of this day are reported late.
  const { limit } = alerted.findLast((each) => each.startMs < startMs) ?? oldest;
  return { startMs, limit, percent: 0 };
}

function withDay(alerted: Alerted, day: JudgedDay): Alerted {
  const others = alerted.filter(({ startMs }) => startMs !== day.startMs);
  return [...others, day].sort((a, b) => a.startMs - b.startMs);
}
