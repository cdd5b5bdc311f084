// The usage of keys as the command line shows it, as text in plain characters without colours, as JSON, and as CSV.

import { SHORT_WINDOWS, shortLimitsText, WINDOW_NAMES } from "../../src/keys/plans.ts";
import { USAGE_EVERY_MS } from "../../src/limits/index.ts";
import type { DayUsage, KeyDayUsage, KeyUsage, MarkedDayUsage, Requests } from "../../src/operators/usage.ts";
import { printable, timeOrNull } from "../keys/text.ts";
import { csvLine } from "../lib/csv.ts";
import { tableText } from "../lib/table.ts";

/** For people: the objects of the keys write their counts by an alarm. */
export const AGE_NOTE = `The counts of today can be ${USAGE_EVERY_MS / 60_000} minutes old.`;

const BAR_LENGTH = 20;

/** Each column of counts of a day: its title, the character that draws it in a bar, and the counts. */
const PARTS: { title: string; mark: string; of: (used: Requests) => number }[] = [
  { title: "ADMITTED", mark: "#", of: ({ admitted }) => admitted },
  ...WINDOW_NAMES.map((name, index) => ({
    title: `${index === 0 ? "REFUSED " : ""}BY ${name.toUpperCase()}`,
    mark: "-x+*"[index] ?? ".",
    of: ({ refusedBy }: Requests) => refusedBy[name],
  })),
];
const TITLES = PARTS.map(({ title }) => title);

/** A line for each key. */
export function usageTable(keys: KeyUsage[]): string {
  const busiest = SHORT_WINDOWS.map((name) => `BUSIEST ${name.toUpperCase()}`);
  const atLimit = WINDOW_NAMES.map(
    (name, index) => `${index === 0 ? "DAYS " : ""}AT ${name.toUpperCase()} LIMIT`,
  );
  const numbers = [...TITLES, ...busiest, ...atLimit, "SHARE"];
  const hasRefs = keys.some(({ ref }) => ref !== null);
  const who = ["ID", "NAME", ...(hasRefs ? ["REF"] : []), "PLAN"];
  const header = [...who, ...numbers, "ENOUGH", "LAST USED"];
  const rows = keys.map((used) => {
    const { id, name, ref, plan, limits, share, daysAtLimit, enough } = used;
    return [
      id,
      printable(name ?? "-"),
      ...(hasRefs ? [printable(ref ?? "")] : []),
      `${printable(plan ?? "-")}${limits === null ? "" : ` ${shortLimitsText(limits)}`}`,
      ...PARTS.map(({ of }) => withSeparators(of(used))),
      ...SHORT_WINDOWS.map((window) => withSeparators(used.busiest[window] ?? 0)),
      ...WINDOW_NAMES.map((window) => `${daysAtLimit[window]}`),
      share === null ? "-" : percent(share),
      enough ?? "-",
      timeOrNull(lastUsedMs(used)) ?? "-",
    ];
  });
  return tableText(
    [header, ...rows],
    numbers.map((_, index) => who.length + index),
  );
}

/** A line for each day of each key. */
export function keyDaysTable(days: KeyDayUsage[]): string {
  const header = ["DATE", "ID", "NAME", "PLAN", ...TITLES];
  const rows = days.map((day) => [
    ...[day.date, day.id, printable(day.name ?? "-"), printable(day.plan ?? "-")],
    ...PARTS.map(({ of }) => withSeparators(of(day))),
  ]);
  return tableText(
    [header, ...rows],
    PARTS.map((_, index) => 4 + index),
  );
}

/** When a request last arrived. */
export function lastUsedMs({ lastAdmittedMs, lastRefusedMs }: Requests): number | null {
  return Math.max(lastAdmittedMs ?? 0, lastRefusedMs ?? 0) || null;
}

type Cell = string | number | null;

/** Columns of a report as CSV: the name of each, and its cell. */
export type Columns<Row> = [name: string, of: (row: Row) => Cell][];

const WHO: Columns<Pick<KeyUsage, "id" | "name" | "ref" | "note" | "plan">> = [
  ["id", ({ id }) => id],
  ["name", ({ name }) => name],
  ["ref", ({ ref }) => ref],
  ["note", ({ note }) => note],
  ["plan", ({ plan }) => plan],
];

const COUNTED: Columns<Requests> = [
  ["admitted", ({ admitted }) => admitted],
  ...WINDOW_NAMES.map((name): Columns<Requests>[number] => [
    `refused_by_${name}`,
    ({ refusedBy }) => refusedBy[name],
  ]),
  ...SHORT_WINDOWS.map((name): Columns<Requests>[number] => [
    `busiest_${name}`,
    ({ busiest }) => busiest[name] ?? null,
  ]),
];

export const USAGE_COLUMNS: Columns<KeyUsage> = [
  ...WHO,
  ...WINDOW_NAMES.map((name): Columns<KeyUsage>[number] => [
    `per_${name}`,
    ({ limits }) => limits?.[name] ?? null,
  ]),
  ...COUNTED,
  ...WINDOW_NAMES.map((name): Columns<KeyUsage>[number] => [
    `days_at_limit_per_${name}`,
    ({ daysAtLimit }) => daysAtLimit[name],
  ]),
  ...WINDOW_NAMES.map((name): Columns<KeyUsage>[number] => [`sent_per_${name}`, ({ sent }) => sent[name]]),
  ["share_of_day", ({ share }) => share],
  ["enough", ({ enough }) => enough],
  ["last_used", (used) => timeOrNull(lastUsedMs(used))],
];

export const DAY_COLUMNS: Columns<Requests & { date: string }> = [["date", ({ date }) => date], ...COUNTED];
export const MARKED_DAY_COLUMNS: Columns<MarkedDayUsage> = [
  ...DAY_COLUMNS,
  ["used_up", ({ usedUp }) => usedUp.join(" ")],
];
export const KEY_DAY_COLUMNS: Columns<KeyDayUsage> = [["date", ({ date }) => date], ...WHO, ...COUNTED];

/** With a header. */
export function csvTable<Row>(columns: Columns<Row>, rows: Row[]): string {
  const header = csvLine(columns.map(([name]) => name));
  return rows.length === 0 ? header : `${header}\n${csvRows(columns, rows)}`;
}

/** Rows as CSV: each a line, whatever characters it has. */
export function csvRows<Row>(columns: Columns<Row>, rows: Row[]): string {
  const textOf = (cell: Cell) => (typeof cell === "string" ? printable(cell) : cell);
  return rows.map((row) => csvLine(columns.map(([, of]) => textOf(of(row))))).join("\n");
}

/** A line for each day, with its counts, a bar that is scaled to the busiest day, and the limits that were used up, if any were. */
export function daysTable(days: (DayUsage & Partial<MarkedDayUsage>)[]): string {
  const areUsedUp = days.some(({ usedUp = [] }) => usedUp.length > 0);
  // A correction can make a count negative.
  const countsOf = (day: Requests) => PARTS.map(({ of }) => Math.max(0, of(day)));
  const max = Math.max(1, ...days.map((day) => countsOf(day).reduce((sum, count) => sum + count)));
  const rows = days.map((day) => {
    // Rounded up, so that small counts are visible.
    const bars = countsOf(day).map((count) => Math.ceil((count / max) * BAR_LENGTH));
    const bar = PARTS.map(({ mark }, index) => mark.repeat(bars[index] ?? 0)).join("");
    const usedUp = areUsedUp ? [day.usedUp?.join(", ") ?? ""] : [];
    return [day.date, ...PARTS.map(({ of }) => withSeparators(of(day))), ...usedUp, bar];
  });
  const titles = PARTS.map(({ title, mark }) => `${title} ${mark}`);
  const header = ["DATE", ...titles, ...(areUsedUp ? ["USED UP"] : []), ""];
  return tableText(
    [header, ...rows],
    PARTS.map((_, index) => 1 + index),
  );
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

/** `12.3%` */
export function percent(share: number): string {
  return share.toLocaleString("en", { style: "percent", maximumFractionDigits: 1 });
}

/** `1,000` */
export function withSeparators(value: number): string {
  return value.toLocaleString("en");
}
