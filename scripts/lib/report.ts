// A report is rows with columns. One description of the columns makes a table for people and lines of CSV; JSON has all fields of a row.

import { csvLine } from "./csv.ts";
import { type Io, jsonText, printable } from "./io.ts";
import { tableText } from "./table.ts";
import { formatTime } from "./time.ts";

export interface Column<Row> {
  /** In a table, which has no column without any text. */
  title?: string;
  /** In CSV. */
  csv?: string;
  of(row: Row): string | number | null;
  /** How a table shows it, if not as it is. */
  text?(row: Row): string;
}

/** Prints rows, which may be more than the memory holds, in pages. Returns their number. */
export async function printReport<Row extends object>(
  io: Io,
  { json, csv }: { json?: true | undefined; csv?: true | undefined },
  columns: Column<Row>[],
  pages: AsyncIterable<Row[]> | Row[][],
): Promise<number> {
  let shown = 0;
  if (csv) await io.write(csvHeader(columns));
  for await (const rows of pages) {
    if (rows.length === 0) continue;
    if (json) await io.write(`${shown === 0 ? "[" : ","}${rows.map((row) => jsonText(jsonOf(row)))}`);
    else await io.write(csv ? csvRows(columns, rows) : `${tableOf(columns, rows)}\n`);
    shown += rows.length;
  }
  if (json) await io.write(shown > 0 ? "]\n" : "[]\n");
  return shown;
}

export function tableOf<Row>(columns: Column<Row>[], rows: Row[]): string {
  const shown = columns.flatMap(({ title, of, text }) => {
    const cells = rows.map((row) => text?.(row) ?? cellText(of(row)));
    const isNumber = rows.some((row) => typeof of(row) === "number");
    return title === undefined || cells.every((cell) => cell === "") ? [] : [{ title, cells, isNumber }];
  });
  const header = shown.map(({ title }) => title);
  const lines = rows.map((_, index) => shown.map(({ cells }) => cells[index] ?? ""));
  return tableText(
    [header, ...lines],
    shown.flatMap(({ isNumber }, index) => (isNumber ? [index] : [])),
  );
}

function cellText(cell: string | number | null): string {
  return typeof cell === "number" ? withSeparators(cell) : (cell ?? "-");
}

export function csvHeader<Row>(columns: Column<Row>[]): string {
  return `${csvLine(columns.flatMap(({ csv }) => csv ?? []))}\n`;
}

/** Each row is a line, whatever characters it has. */
export function csvRows<Row>(columns: Column<Row>[], rows: Row[]): string {
  const named = columns.filter(({ csv }) => csv !== undefined);
  const cellOf = (cell: string | number | null) => (typeof cell === "string" ? printable(cell) : cell);
  return rows.map((row) => `${csvLine(named.map(({ of }) => cellOf(of(row))))}\n`).join("");
}

/** A row in the output of `--json`: `createdAt` as text for `createdAtMs`, `lastUsedAt` for `lastUsedMs`. */
export function jsonOf(row: object): Record<string, unknown> {
  const fields = Object.entries(row).map(([name, value]) => {
    if (!name.endsWith("Ms")) return [name, value];
    const time = name.slice(0, -2);
    return [/(at|until)$/i.test(time) ? time : `${time}At`, timeOrNull(value)];
  });
  return Object.fromEntries(fields);
}

export function timeOrNull(ms: number | null): string | null {
  return ms === null ? null : formatTime(ms);
}

/** `1,000` */
export function withSeparators(value: number): string {
  return value.toLocaleString("en");
}

/** `12.3%` */
export function percent(share: number): string {
  return share.toLocaleString("en", { style: "percent", maximumFractionDigits: 1 });
}
