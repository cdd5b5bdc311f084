// Tables for terminals: columns without borders, which know that some characters are two columns wide. On a terminal that is too narrow,
// cells wrap within their column. Elsewhere a row is a line, so that grep finds all of it.

import stringWidth from "string-width";
import { getBorderCharacters, table } from "table";

const TIME_WIDTH = 20;
const TIME = /(\d{4}-\d\d-\d\d)(T\d\d:\d\d:\d\dZ)/g;

/** The library would also wrap within ids and dates. It leaves these characters alone, which no name has. */
const PROTECTED = { "-": "\u{e02d}", _: "\u{e05f}" } as const;

/**
 * Rows of cells as text with aligned columns, the header first. `numbers` are the columns to align to the right. The first column never
 * wraps.
 */
export function tableText(
  rows: string[][],
  numbers: number[] = [],
  maxWidth = process.stdout.columns ?? Number.POSITIVE_INFINITY,
): string {
  const columns = (rows[0] ?? []).map((_, index) => rows.map((row) => row[index] ?? ""));
  const natural = columns.map((cells) => widest(cells));
  const gap = fits(natural, 2, maxWidth) ? 2 : 1;
  const words = columns.map((cells, index) =>
    index === 0 ? widest(cells) : widest(cells.flatMap((cell) => withBreaks(cell).split(/\s/))),
  );
  // First between words, then, if that is not enough, within them.
  const ofWords = shrink(natural, words, gap, maxWidth);
  const anywhere = words.map((width, index) => (index === 0 ? width : 1));
  const widths = shrink(ofWords, anywhere, gap, maxWidth);
  const cellText = (cell: string, index: number) => {
    const text = (widths[index] ?? 0) < TIME_WIDTH ? withBreaks(cell) : cell;
    return text.replace(/[-_]/g, (character) => PROTECTED[character as keyof typeof PROTECTED]);
  };
  const text = table(
    rows.map((row) => row.map(cellText)),
    {
      border: getBorderCharacters("void"),
      drawHorizontalLine: () => false,
      columnDefault: { paddingLeft: 0, paddingRight: gap, wrapWord: true },
      columns: widths.map((width, index) => ({
        width: Math.max(width, 1),
        alignment: numbers.includes(index) ? "right" : "left",
      })),
    },
  );
  return text.replaceAll(PROTECTED["-"], "-").replaceAll(PROTECTED._, "_").replaceAll(/ +$/gm, "").trimEnd();
}

/** A time wraps before its T in a column that is narrower. */
function withBreaks(cell: string): string {
  return cell.replace(TIME, "$1\n$2");
}

function widest(texts: string[]): number {
  return Math.max(0, ...texts.map((text) => stringWidth(text)));
}

function fits(widths: number[], gap: number, maxWidth: number): boolean {
  return widths.reduce((sum, width) => sum + width + gap, -gap) <= maxWidth;
}

/** Takes from the column with most to spare until the table fits, or all columns have their smallest width. */
function shrink(widths: number[], smallest: number[], gap: number, maxWidth: number): number[] {
  const shrunk = [...widths];
  while (!fits(shrunk, gap, maxWidth)) {
    const spare = shrunk.map((width, index) => width - (smallest[index] ?? 0));
    const most = Math.max(...spare);
    if (most <= 0) break;
    shrunk[spare.indexOf(most)] = (shrunk[spare.indexOf(most)] ?? 0) - 1;
  }
  return shrunk;
}
