// Tables for terminals: columns without borders, which know that some characters are two columns wide.

import { getBorderCharacters, table } from "table";

/** Rows of cells as text with aligned columns, the header first. `numbers` are the columns to align to the right. */
export function tableText(rows: string[][], numbers: number[] = []): string {
  const columns = Object.fromEntries(numbers.map((column) => [column, { alignment: "right" as const }]));
  const text = table(rows, {
    border: getBorderCharacters("void"),
    drawHorizontalLine: () => false,
    columnDefault: { paddingLeft: 0, paddingRight: 2 },
    columns,
  });
  return text.replaceAll(/ +$/gm, "").trimEnd();
}
