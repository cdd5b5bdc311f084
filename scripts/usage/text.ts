// Usage as text for a terminal of 80 columns, in plain characters without colours. Pure functions.

import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { tableText } from "../lib/table.ts";
import { type LoggedKey, totalOf } from "./telemetry.ts";

const COLUMNS = 80;

/** Each column of counts, with the character that draws it in a bar. */
const MARKS = { admitted: "#", refused: "-", banned: "x" } as const;

type Part = keyof typeof MARKS;
type Day = { date: string } & { [part in Part]?: number };

/** The usage of the key that ends in `lastFour`. `nowMs` is Unix time. */
export function keyText(lastFour: string, usage: UsageBody, nowMs: number): string {
  const { plan, bannedUntil, days } = usage;
  const ban = bannedUntil === null ? "" : `\n  BANNED until ${formatReset(bannedUntil * 1000, nowMs)}`;
  return `Key …${lastFour}, ${plan} plan${ban}\n\n${windowsText(usage, nowMs)}\n\n${daysText(days)}`;
}

export function windowsText(usage: Pick<UsageBody, "minute" | "day">, nowMs: number): string {
  const windows = (["minute", "day"] as const).map((name) => {
    const { used, limit, remaining, reset } = usage[name];
    return [name, number(used), number(limit), number(remaining), formatReset(reset * 1000, nowMs)];
  });
  return indented(tableText([["", "USED", "LIMIT", "LEFT", "RESETS"], ...windows], [1, 2, 3]));
}

/** The counts of a log. */
export function logText(keys: LoggedKey[]): string {
  const texts = keys.map((key) => `${key.keyId}: ${number(totalOf(key))} requests\n\n${daysText(key.days)}`);
  return texts.join("\n\n") || "No requests with a valid key.";
}

/** A row for each day, with its counts and a bar, scaled to the busiest day. */
export function daysText(days: Day[]): string {
  const parts = (Object.keys(MARKS) as Part[]).filter((part) => days.some((day) => day[part] !== undefined));
  const header = parts.map((part) => `${part.toUpperCase()} ${MARKS[part]}`);
  const rows = days.map((day) => [day.date, ...parts.map((part) => number(day[part] ?? 0))]);
  const lines = indented(tableText([["DATE", ...header], ...rows], [1, 2, 3])).split("\n");
  const room = COLUMNS - (lines[0]?.length ?? 0) - 2;
  const max = Math.max(1, ...days.map((day) => parts.reduce((sum, part) => sum + (day[part] ?? 0), 0)));
  // Every part but the largest may be rounded up to one character, so that small counts are visible.
  const unit = (room - parts.length + 1) / max;
  const lengthOf = (count: number) => (count === 0 ? 0 : Math.max(1, Math.floor(count * unit)));
  const withBars = lines.map((line, index) => {
    const bar = parts.map((part) => MARKS[part].repeat(lengthOf(days[index - 1]?.[part] ?? 0)));
    return `${line}  ${bar.join("")}`.trimEnd();
  });
  return withBars.join("\n");
}

function indented(text: string): string {
  return text.replaceAll(/^/gm, "  ");
}

/** With separators of thousands: `1,000`. */
function number(value: number): string {
  return value.toLocaleString("en");
}

/** A UTC time today or tomorrow, and the time until then: `11:37:00Z, in 19 s`, `9 min 12 s` or `12 h 23 min`. */
function formatReset(ms: number, nowMs: number): string {
  const seconds = Math.max(0, Math.ceil((ms - nowMs) / 1000));
  const minutes = Math.floor(seconds / 60);
  const long = `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  const duration = minutes === 0 ? `${seconds} s` : minutes < 60 ? `${minutes} min ${seconds % 60} s` : long;
  return `${new Date(ms).toISOString().slice(11, 19)}Z, in ${duration}`;
}
