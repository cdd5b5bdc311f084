// Alerts of days on which a key has used much of its limit: each percentage once a day.

import type { DayTotals } from "../protocol.ts";

const ALERT_PERCENTAGES = [80, 100];

/** The latest day with an alert, and its largest percentage. */
export type Alerted = { startMs: number; percent: number };

export const NO_ALERT: Alerted = { startMs: 0, percent: 0 };

/** The percentages of its limit that a day has reached without an alert. */
export function newAlerts(
  alerted: Alerted,
  { startMs, admitted }: Pick<DayTotals, "startMs" | "admitted">,
  limit: number,
): number[] {
  if (startMs < alerted.startMs) return [];
  const { percent } = startMs === alerted.startMs ? alerted : NO_ALERT;
  return ALERT_PERCENTAGES.filter((each) => each > percent && admitted * 100 >= each * limit);
}
