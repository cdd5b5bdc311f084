// Usage as people read it in a terminal of 80 columns: plain characters without colours, so that a file or a mail has the
// same. Pure functions.

import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { type LoggedKey, totalOf } from "./log.ts";

const COLUMNS = 80;

/** Each column of numbers, with the character that its part of a bar is drawn with. */
const MARKS = { admitted: "#", refused: "-", banned: "x" } as const;

type Part = keyof typeof MARKS;
type Day<Parts extends Part> = { date: string } & Record<Parts, number>;

/** How a key stands, named by its last four characters. `nowMs` is Unix time. */
export function keyText(lastFour: string, usage: UsageBody, nowMs: number): string {
  const { plan, bannedUntil, days } = usage;
  const windows = (["minute", "day"] as const).map((name) => {
    const { used, limit, remaining, reset } = usage[name];
    return {
      cells: [name, number(used), number(limit), number(remaining)],
      reset: instant(reset * 1000, nowMs),
    };
  });
  const resets = ["RESETS", ...windows.map(({ reset }) => reset)];
  const ban = bannedUntil === null ? [] : [`  BANNED until ${instant(bannedUntil * 1000, nowMs)}`];
  return [
    `Key …${lastFour}, on the ${plan} plan`,
    ...ban,
    "",
    ...table([["", "USED", "LIMIT", "LEFT"], ...windows.map(({ cells }) => cells)]).map(
      (row, index) => `${row}  ${resets[index]}`,
    ),
    "",
    ...daysText(days, ["admitted", "refused"]),
  ].join("\n");
}

/** What a log says of keys. */
export function logText(keys: LoggedKey[]): string {
  if (keys.length === 0) return "There is no request with a valid key.";
  const texts = keys.map((key) =>
    [
      `${key.keyId}: ${number(totalOf(key))} requests`,
      "",
      ...daysText(key.days, ["admitted", "refused", "banned"]),
    ].join("\n"),
  );
  return texts.join("\n\n");
}

/** A row for each day, with its numbers and a bar; the longest one is the day with the most requests. */
function daysText<Parts extends Part>(days: Day<Parts>[], parts: Parts[]): string[] {
  const rows = table([
    ["DATE", ...parts.map((part) => `${part.toUpperCase()} ${MARKS[part]}`)],
    ...days.map((day) => [day.date, ...parts.map((part) => number(day[part]))]),
  ]);
  const room = COLUMNS - (rows[0]?.length ?? 0) - 2;
  const most = Math.max(1, ...days.map((day) => parts.reduce((sum, part) => sum + day[part], 0)));
  // What is there at all is seen, so that the smallest parts may take one character more than is theirs.
  const unit = (room - parts.length + 1) / most;
  return rows.map((row, index) => {
    const day = days[index - 1];
    const bar = parts.map((part) => MARKS[part].repeat(lengthOf(day?.[part] ?? 0, unit))).join("");
    return bar === "" ? row : `${row}  ${bar}`;
  });
}

function lengthOf(value: number, unit: number): number {
  return value === 0 ? 0 : Math.max(1, Math.floor(value * unit));
}

/** Rows of equal length, indented; the first column to the left, all others to the right. */
function table(rows: string[][]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => {
    const cells = row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return column === 0 ? cell.padEnd(width) : cell.padStart(width);
    });
    return `  ${cells.join("  ")}`;
  });
}

/** A number with its thousands told apart: `1,000`. */
function number(value: number): string {
  return value.toLocaleString("en");
}

/** A time of this day or the next in UTC, and how long it is until then: `11:37:00Z, in 19 s`. */
function instant(ms: number, nowMs: number): string {
  const time = new Date(ms).toISOString().slice(11, 19);
  return `${time}Z, in ${duration(Math.max(0, Math.ceil((ms - nowMs) / 1000)))}`;
}

/** `19 s`, `9 min 12 s`, `12 h 23 min`. */
function duration(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  if (minutes === 0) return `${seconds} s`;
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
