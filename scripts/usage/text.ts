// A key's usage as text for a terminal of 80 columns, in plain characters without colours.

import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { tableText } from "../lib/table.ts";

/** Leaves room for counts up to a billion. */
const BAR_LENGTH = 20;

/** Each column of counts, with the character that draws it in a bar. */
const MARKS = { admitted: "#", refused: "-", banned: "x" } as const;

type Part = keyof typeof MARKS;
type Day = { date: string } & { [part in Part]?: number };

export function windowsText(usage: Pick<UsageBody, "minute" | "day">, nowMs: number): string {
  const windows = (["minute", "day"] as const).map((name) => {
    const { used, limit, remaining, reset } = usage[name];
    const left = `${timeOfDay(reset * 1000)}Z, in ${timeOfDay(reset * 1000 - nowMs)}`;
    return [name, ...[used, limit, remaining].map(withSeparators), left];
  });
  return indented([["", "USED", "LIMIT", "LEFT", "RESETS"], ...windows]);
}

/** A row for each day, with its counts and a bar, scaled to the busiest day. */
export function daysText(days: Day[]): string {
  const parts = (Object.keys(MARKS) as Part[]).filter((part) => days.some((day) => day[part] !== undefined));
  const countsOf = (day: Day) => parts.map((part) => day[part] ?? 0);
  const max = Math.max(1, ...days.map((day) => countsOf(day).reduce((sum, count) => sum + count)));
  const rows = days.map((day) => {
    // Rounded up, so that small counts are visible.
    const bar = parts.map((part) => MARKS[part].repeat(Math.ceil(((day[part] ?? 0) / max) * BAR_LENGTH)));
    return [day.date, ...countsOf(day).map(withSeparators), bar.join("")];
  });
  return indented([["DATE", ...parts.map((part) => `${part.toUpperCase()} ${MARKS[part]}`), ""], ...rows]);
}

/** All columns but the first and the last are numbers. */
function indented(rows: string[][]): string {
  const numbers = rows[0]?.map((_, column) => column).slice(1, -1);
  return tableText(rows, numbers).replaceAll(/^/gm, "  ");
}

/** `1,000` */
function withSeparators(value: number): string {
  return value.toLocaleString("en");
}

/** `23:59:59`: a UTC time, or a duration of less than a day. */
function timeOfDay(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19);
}
