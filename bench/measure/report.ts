// Output for people: progress on standard error, and tables.

import { median, percentile } from "./statistics.ts";

/** Prints a line of progress. */
export function progress(line: string): void {
  process.stderr.write(`${line}\n`);
}

export interface Table {
  title: string;
  columns: string[];
  rows: string[][];
}

/** Formats a table. The first and the last column are left-aligned, the others, which are numbers, right-aligned. */
export function tableText({ title, columns, rows }: Table): string {
  const lines = [columns, ...rows];
  const widths = columns.map((_column, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  const padded = (cell: string, index: number) => {
    const isText = index === 0 || index === columns.length - 1;
    return isText ? cell.padEnd(widths[index] ?? 0) : cell.padStart(widths[index] ?? 0);
  };
  return `${title}\n  ${lines.map((line) => line.map(padded).join("  ").trimEnd()).join("\n  ")}\n`;
}

/** The median of ratios with their quartiles, such as `1.04 [0.98 to 1.10]`. */
export function ratioText(ratios: readonly number[]): string {
  const middle = median(ratios);
  const text = (value: number) => value.toFixed(middle < 0.1 ? 4 : 2);
  return `${text(middle)} [${text(percentile(ratios, 0.25))} to ${text(percentile(ratios, 0.75))}]`;
}

/** A number rounded to an integer, with thousands separators. */
export function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
