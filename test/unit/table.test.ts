// Tables of commands: the width of characters, and what happens on a narrow terminal.

import stringWidth from "string-width";
import { expect, it, onTestFinished, vi } from "vitest";
import { factsText, tableText } from "../../scripts/lib/table.ts";
import fc from "../support/fast-check.ts";

const ROWS = [
  ["ID", "NAME", "PLAN", "LAST USED", "BANS"],
  ["key_5vNzBYuJQDuz", "Anna & Sons", "enterprise 5000/min 1000000/day", "2026-11-23T05:58:38Z", "12"],
  ["key_5NNP1VybZDFy", "日本語の店 👍🏽 とてもながい", "free 60/min 1000/day", "never", "1"],
];

it("a row is a line where nothing limits the width, and wide characters stay in their column", () => {
  expect(tableText(ROWS, [4], Number.POSITIVE_INFINITY)).toBe(
    `ID                NAME                        PLAN                             LAST USED             BANS
key_5vNzBYuJQDuz  Anna & Sons                 enterprise 5000/min 1000000/day  2026-11-23T05:58:38Z    12
key_5NNP1VybZDFy  日本語の店 👍🏽 とてもながい  free 60/min 1000/day             never                    1`,
  );
});

it("on a narrow terminal, cells wrap within their column: between words, a time before its T, an id never", () => {
  expect(tableText(ROWS, [4], 64)).toBe(
    `ID               NAME           PLAN          LAST USED     BANS
key_5vNzBYuJQDuz Anna & Sons    enterprise    2026-11-23      12
                                5000/min      T05:58:38Z
                                1000000/day
key_5NNP1VybZDFy 日本語の店 👍🏽  free 60/min   never            1
                 とてもながい   1000/day`,
  );
});

it("the first column never wraps, neither between words nor within them", () => {
  const rows = ROWS.map(([first, ...others]) => [`an ${first}`, ...others]);
  for (let width = 40; width < 100; width += 1)
    expect(tableText(rows, [4], width)).toContain("an key_5vNzBYuJQDuz");
});

it("on a terminal without room for columns, each field gets a line", () => {
  const [header = [], first = []] = ROWS;
  const fields = header.map((name, index) => `${name}: ${first[index]}`).join("\n");
  for (const columns of [1, 20, 33, 39])
    expect(tableText([header, first, [...first]], [4], columns)).toBe(`${fields}\n\n${fields}`);
  expect(tableText([header, first], [4], 40)).toBe(fields);
  expect(
    factsText(
      [
        ["Build", "1.0.0 at http://localhost:8787"],
        ["Keys", "2"],
      ],
      20,
    ),
  ).toBe("Build: 1.0.0 at http://localhost:8787\nKeys: 2");
});

it("a terminal that says it has 0 columns is like a pipe, and the width of a terminal is the default", () => {
  onTestFinished(() => void vi.unstubAllGlobals());
  for (const [columns, expected] of [
    [0, Number.POSITIVE_INFINITY],
    [undefined, Number.POSITIVE_INFINITY],
    [64, 64],
  ] as const) {
    vi.stubGlobal("process", { ...process, stdout: { columns } });
    expect(tableText(ROWS)).toBe(tableText(ROWS, [], expected));
  }
});

// Text without blanks, because a line breaks at them.
const PARTS = [..."a/.,-日# ", "key_5vNzBYuJQDuz", "👍🏽", "e\u0301", "2026-11-23T05:58:38Z"];
const CELL = fc.array(fc.constantFrom(...PARTS), { maxLength: 30 }).map((parts) => parts.join(""));
const TABLE = fc
  .integer({ min: 1, max: 8 })
  .chain((columns) =>
    fc.array(fc.array(CELL, { minLength: columns, maxLength: columns }), { minLength: 2, maxLength: 4 }),
  );

it("no line is wider than the terminal, and every character is there, in its order within its cell", () => {
  const visible = (of: string) => [...of.replaceAll(/\s/g, "")];
  const check = (table: string[][], width: number, numbers: number[]) => {
    const text = tableText(table, numbers, width);
    if (width >= 40)
      for (const line of text.split("\n")) expect(stringWidth(line)).toBeLessThanOrEqual(width);
    const [header = [], ...rows] = table;
    const fields = rows.flatMap((row) =>
      row.flatMap((cell, index) => (cell === "" ? [] : [header[index] ? `${header[index]}:` : "", cell])),
    );
    const shown = visible(text);
    expect([table.flat(), fields].map((cells) => visible(cells.join("")).sort())).toContainEqual(
      [...shown].sort(),
    );
    for (const cell of rows.flat()) {
      let at = 0;
      for (const character of visible(cell))
        at = shown.indexOf(character, at) + 1 || Number.POSITIVE_INFINITY;
      expect(at).toBeLessThan(Number.POSITIVE_INFINITY);
    }
  };
  const width = fc.integer({ min: 1, max: 120 });
  fc.assert(fc.property(TABLE, width, fc.subarray([0, 1, 2, 3]), check), { numRuns: 300 });
});
