// Output for people: progress on standard error, and a table for each section, with targets.

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

/** A measured value with its target: `0.71 × (at least 0.6: met)`. */
export function verdict(met: boolean, measured: string, target: string): string {
  return `${measured} (${target}: ${met ? "met" : "missed"})`;
}

/** A number rounded to an integer, with thousands separators. */
export function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
