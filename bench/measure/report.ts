// What people see: progress on standard error, and in the end a table for each section, with the targets beside.

/** Says how far the bench is. */
export function progress(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** A section of the report: what it is about, its columns, and its rows. */
export interface Table {
  title: string;
  columns: string[];
  rows: string[][];
}

/** The text of a table. The first column is left-aligned, and the last, which is prose; numbers are right-aligned. */
export function tableText({ title, columns, rows }: Table): string {
  const lines = [columns, ...rows];
  const widths = columns.map((_column, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  const isText = (index: number) => index === 0 || index === columns.length - 1;
  const texts = lines.map((line) =>
    line
      .map((cell, index) =>
        isText(index) ? cell.padEnd(widths[index] ?? 0) : cell.padStart(widths[index] ?? 0),
      )
      .join("  ")
      .trimEnd(),
  );
  return `${title}\n  ${texts.join("\n  ")}\n`;
}

/** What was measured beside what it should be. */
export function verdict(met: boolean, measured: string, target: string): string {
  return `${measured} (${target}: ${met ? "met" : "missed"})`;
}

/** A rate, in whole numbers with commas. */
export function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
