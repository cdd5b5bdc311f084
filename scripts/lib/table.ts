// Tables for terminals: columns without borders, which know that some characters are two columns wide. On a terminal that is too narrow,
// cells wrap within their column; if a column would be too narrow to be read, each field gets a line. Elsewhere a row is a line, so that
// grep finds all of it.

import stringWidth from "string-width";
import { printable } from "./io.ts";

/** On a narrower terminal, an id would leave no room for columns. */
const MIN_WIDTH = 40;
/** Words wrap only in columns of this width or more. Narrower ones: broken dates; wider ones: fewer tables that have columns. */
const MIN_COLUMN = 10;

const TIME_WIDTH = 20;
const TIME = /(\d{4}-\d\d-\d\d)(T\d\d:\d\d:\d\dZ)/g;

const GRAPHEMES = new Intl.Segmenter();

/** Rows of cells as text with aligned columns, the header first. `numbers` are the columns to align to the right. The first never wraps. */
export function tableText(rows: string[][], numbers: number[] = [], maxWidth = terminalWidth()): string {
  const [header = [], ...rest] = rows;
  const fields = () => rest.map((row) => fieldsText(header, row, maxWidth)).join("\n\n");
  return columnsText(rows, numbers, maxWidth) ?? fields();
}

/** Pairs of a name and a text. */
export function factsText(facts: string[][], maxWidth = terminalWidth()): string {
  const fields = () => facts.map(([name = "", text = ""]) => fieldsText([name], [text], maxWidth)).join("\n");
  return columnsText(facts, [], maxWidth) ?? fields();
}

/** Of a pipe, it is unknown; the terminal of a CI may say 0. */
function terminalWidth(): number {
  return process.stdout.columns || Number.POSITIVE_INFINITY;
}

/** Undefined if there is no room for columns. */
function columnsText(rows: string[][], numbers: number[], maxWidth: number): string | undefined {
  const cells = rows.map((row) => row.map(printable));
  const widest = (textsOf: (cell: string) => string[]) =>
    (rows[0] ?? []).map((_, index) =>
      Math.max(0, ...cells.flatMap((row) => textsOf(row[index] ?? "")).map(widthOf)),
    );
  const natural = widest((cell) => [cell]);
  const ofWords = widest((cell) => partsOf(cell).map((part) => part.trimStart())).with(0, natural[0] ?? 0);
  const smallest = ofWords.map((width, index) => (index === 0 ? width : Math.min(width, MIN_COLUMN)));
  const gap = fits(natural, 2, maxWidth) ? 2 : 1;
  if (maxWidth < MIN_WIDTH || !fits(smallest, gap, maxWidth)) return undefined;
  // First between words, then, if that is not enough, within them.
  const widths = shrink(shrink(natural, ofWords, gap, maxWidth), smallest, gap, maxWidth);
  const pad = (text: string, index: number) => {
    const blanks = " ".repeat((widths[index] ?? 0) - widthOf(text));
    return numbers.includes(index) ? blanks + text : text + blanks;
  };
  const lines = cells.flatMap((row) => {
    const wrapped = row.map((cell, index) => wrap(cell, widths[index] ?? 0));
    const height = Math.max(...wrapped.map(({ length }) => length));
    return Array.from({ length: height }, (_, line) =>
      wrapped.map((texts, index) => pad(texts[line] ?? "", index)).join(" ".repeat(gap)),
    );
  });
  return lines.map((line) => line.trimEnd()).join("\n");
}

/** A line for each field that is not empty. The terminal wraps those that are wider than `maxWidth`, if that is very narrow. */
function fieldsText(header: string[], row: string[], maxWidth: number): string {
  const width = maxWidth < MIN_WIDTH ? Number.POSITIVE_INFINITY : maxWidth;
  const lines = row.flatMap((cell, index) => {
    const name = header[index] ? `${header[index]}: ` : "";
    return cell === "" ? [] : wrap(printable(name + cell), width);
  });
  return lines.join("\n");
}

/** The lines of a text, which are broken between words, or within words that are wider. */
function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  const add = (part: string) => {
    if (widthOf(line + part) <= width) line += part;
    else {
      if (line !== "") lines.push(line);
      line = part.trimStart();
    }
  };
  for (const part of width < TIME_WIDTH ? partsOf(text) : text.split(/(?= )/))
    if (widthOf(part.trimStart()) <= width) add(part);
    else for (const { segment } of GRAPHEMES.segment(part)) add(segment);
  return [...lines, line];
}

/** The words of a text, each with the space before it. A time can break before its T. */
function partsOf(text: string): string[] {
  return text.replace(TIME, "$1\n$2").split(/\n|(?= )/);
}

/** The number of columns that a text takes. */
function widthOf(text: string): number {
  return /^[ -~]*$/.test(text) ? text.length : stringWidth(text);
}

function fits(widths: number[], gap: number, maxWidth: number): boolean {
  return widths.reduce((sum, width) => sum + width + gap, -gap) <= maxWidth;
}

/** Takes from the column with most to spare until the table fits, or all columns have their smallest width. */
function shrink(widths: number[], smallest: number[], gap: number, maxWidth: number): number[] {
  const shrunk = [...widths];
  while (!fits(shrunk, gap, maxWidth)) {
    const spare = shrunk.map((width, index) => width - (smallest[index] ?? 0));
    const index = spare.indexOf(Math.max(...spare));
    if ((spare[index] ?? 0) <= 0) break;
    shrunk[index] = (shrunk[index] ?? 0) - 1;
  }
  return shrunk;
}
