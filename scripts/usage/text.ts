// Usage as text for a terminal of 80 columns, in plain characters without colours. Pure functions.

import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { tableLines } from "../lib/table.ts";
import { type LoggedKey, totalOf } from "./log.ts";

const COLUMNS = 80;

/** Each column of counts, with the character that draws it in a bar. */
const MARKS = { admitted: "#", refused: "-", banned: "x" } as const;

type Part = keyof typeof MARKS;
type Day<Parts extends Part> = { date: string } & Record<Parts, number>;

/** The usage of the key that ends in `lastFour`. `nowMs` is Unix time. */
export function keyText(lastFour: string, usage: UsageBody, nowMs: number): string {
  const { plan, bannedUntil, days } = usage;
  const windows = (["minute", "day"] as const).map((name) => {
    const { used, limit, remaining, reset } = usage[name];
    return [name, number(used), number(limit), number(remaining), formatTime(reset * 1000, nowMs)];
  });
  return [
    `Key …${lastFour}, ${plan} plan`,
    ...(bannedUntil === null ? [] : [`  BANNED until ${formatTime(bannedUntil * 1000, nowMs)}`]),
    "",
    ...table([["", "USED", "LIMIT", "LEFT", "RESETS"], ...windows]),
    "",
    ...daysText(days, ["admitted", "refused"]),
  ].join("\n");
}

/** The counts of a log. */
export function logText(keys: LoggedKey[]): string {
  if (keys.length === 0) return "No requests with a valid key.";
  const texts = keys.map((key) =>
    [
      `${key.keyId}: ${number(totalOf(key))} requests`,
      "",
      ...daysText(key.days, ["admitted", "refused", "banned"]),
    ].join("\n"),
  );
  return texts.join("\n\n");
}

/** A row for each day, with its counts and a bar, scaled to the busiest day. */
function daysText<Parts extends Part>(days: Day<Parts>[], parts: Parts[]): string[] {
  const rows = table([
    ["DATE", ...parts.map((part) => `${part.toUpperCase()} ${MARKS[part]}`)],
    ...days.map((day) => [day.date, ...parts.map((part) => number(day[part]))]),
  ]);
  const room = COLUMNS - (rows[0]?.length ?? 0) - 2;
  const max = Math.max(1, ...days.map((day) => parts.reduce((sum, part) => sum + day[part], 0)));
  // Every part but the largest may be rounded up to one character.
  const unit = (room - parts.length + 1) / max;
  return rows.map((row, index) => {
    const day = days[index - 1];
    const bar = parts.map((part) => MARKS[part].repeat(barLength(day?.[part] ?? 0, unit))).join("");
    return bar === "" ? row : `${row}  ${bar}`;
  });
}

/** At least one character, so that small counts are visible. */
function barLength(value: number, unit: number): number {
  return value === 0 ? 0 : Math.max(1, Math.floor(value * unit));
}

function table([header = [], ...rows]: string[][]): string[] {
  const isText = (column: number) => column === 0 || header[column] === "RESETS";
  return tableLines([header, ...rows], isText).map((line) => `  ${line}`);
}

/** With separators of thousands: `1,000`. */
function number(value: number): string {
  return value.toLocaleString("en");
}

/** A UTC time today or tomorrow, and the time until then: `11:37:00Z, in 19 s`. */
function formatTime(ms: number, nowMs: number): string {
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
