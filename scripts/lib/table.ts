/** Rows of cells as lines with aligned columns: text to the left, numbers to the right. */
export function tableLines(rows: string[][], isText: (column: number) => boolean): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => {
    const cells = row.map((cell, column) => {
      const width = widths[column] ?? 0;
      return isText(column) ? cell.padEnd(width) : cell.padStart(width);
    });
    return cells.join("  ").trimEnd();
  });
}
