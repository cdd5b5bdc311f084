// The usage of keys as the command line shows it, as text in plain characters without colours, and as JSON.

import { USAGE_EVERY_MS } from "../../src/limits/index.ts";
import type { DayUsage, KeyUsage, Requests } from "../../src/operators/usage.ts";
import { printable, timeOrNull } from "../keys/text.ts";
import { tableText } from "../lib/table.ts";

/** For people: the objects of the keys write their counts by an alarm. */
export const AGE_NOTE = `The counts of today can be ${USAGE_EVERY_MS / 60_000} minutes old.`;

const BAR_LENGTH = 20;

/** Each column of counts of a day, with the character that draws it in a bar. */
const MARKS = { admitted: "#", refusedMinute: "-", refusedDay: "x" } as const;
const PARTS = Object.keys(MARKS) as (keyof typeof MARKS)[];
const DAYS_HEADER = ["DATE", "ADMITTED #", "REFUSED BY MINUTE -", "BY DAY x", ""];

/** A line for each key. */
export function usageTable(keys: KeyUsage[]): string {
  const header = "ID/NAME/PLAN/ADMITTED/REFUSED BY MINUTE/BY DAY/SHARE/LAST USED".split("/");
  const rows = keys.map(({ id, name, plan, share, lastAdmittedMs, lastRefusedMs, ...counts }) => [
    id,
    printable(name ?? "-"),
    plan ?? "-",
    ...PARTS.map((part) => withSeparators(counts[part])),
    share === null ? "-" : share.toLocaleString("en", { style: "percent", maximumFractionDigits: 1 }),
    timeOrNull(Math.max(lastAdmittedMs ?? 0, lastRefusedMs ?? 0) || null) ?? "-",
  ]);
  return tableText([header, ...rows], [3, 4, 5, 6]);
}

/** A line for each day, with its counts and a bar, scaled to the busiest day. */
export function daysTable(days: DayUsage[]): string {
  // A correction can make a count negative.
  const countsOf = (day: DayUsage) => PARTS.map((part) => Math.max(0, day[part]));
  const max = Math.max(1, ...days.map((day) => countsOf(day).reduce((sum, count) => sum + count)));
  const rows = days.map((day) => {
    // Rounded up, so that small counts are visible.
    const bars = countsOf(day).map((count) => Math.ceil((count / max) * BAR_LENGTH));
    const bar = PARTS.map((part, index) => MARKS[part].repeat(bars[index] ?? 0)).join("");
    return [day.date, ...PARTS.map((part) => withSeparators(day[part])), bar];
  });
  return tableText([DAYS_HEADER, ...rows], [1, 2, 3]);
}

/** A key or a day in the output of `--json`. */
export function usageJson<Used extends Pick<Requests, "lastAdmittedMs" | "lastRefusedMs">>({
  lastAdmittedMs,
  lastRefusedMs,
  ...used
}: Used) {
  return {
    ...used,
    lastAdmittedAt: timeOrNull(lastAdmittedMs),
    lastRefusedAt: timeOrNull(lastRefusedMs),
  };
}

/** `1,000` */
export function withSeparators(value: number): string {
  return value.toLocaleString("en");
}
