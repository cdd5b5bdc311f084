// Results that are read and printed in pages, because all of them may be more than the memory holds.

import type { Io } from "./io.ts";

/** Prints the rows as one JSON array. Returns their number. */
export async function printJsonPages<Row>(
  io: Io,
  pages: AsyncIterable<Row[]>,
  jsonOf: (row: Row) => object,
): Promise<number> {
  let shown = 0;
  for await (const page of pages) {
    await io.write(`${shown === 0 ? "[" : ","}${page.map((row) => JSON.stringify(jsonOf(row)))}`);
    shown += page.length;
  }
  io.print(shown > 0 ? "]" : "[]");
  return shown;
}

/** Prints each page as a text. Returns the number of rows. */
export async function printPages<Row>(
  io: Io,
  pages: AsyncIterable<Row[]>,
  textOf: (page: Row[]) => string,
): Promise<number> {
  let shown = 0;
  for await (const page of pages) {
    await io.write(`${textOf(page)}\n`);
    shown += page.length;
  }
  return shown;
}
