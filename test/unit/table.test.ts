// Tables of commands: the width of characters, and what happens on a narrow terminal.

import { expect, it, vi } from "vitest";
import { tableText } from "../../scripts/lib/table.ts";

const ROWS = [
  ["ID", "NAME", "PLAN", "LAST USED", "BANS"],
  ["key_5vNzBYuJQDuz", "Anna & Sons", "enterprise 5000/min 1000000/day", "2026-11-23T05:58:38Z", "12"],
  ["key_5NNP1VybZDFy", "日本語の店 👩‍👩‍👧 とてもながい", "free 60/min 1000/day", "never", "1"],
];

it("a row is a line where nothing limits the width, and wide characters stay in their column", () => {
  expect(tableText(ROWS, [4], Number.POSITIVE_INFINITY)).toBe(
    `ID                NAME                        PLAN                             LAST USED             BANS
key_5vNzBYuJQDuz  Anna & Sons                 enterprise 5000/min 1000000/day  2026-11-23T05:58:38Z    12
key_5NNP1VybZDFy  日本語の店 👩‍👩‍👧 とてもながい  free 60/min 1000/day             never                    1`,
  );
});

it("on a narrow terminal, cells wrap within their column: between words, a time before its T, an id never", () => {
  expect(tableText(ROWS, [4], 64)).toBe(
    `ID               NAME           PLAN          LAST USED     BANS
key_5vNzBYuJQDuz Anna & Sons    enterprise    2026-11-23      12
                                5000/min      T05:58:38Z
                                1000000/day
key_5NNP1VybZDFy 日本語の店 👩‍👩‍👧  free 60/min   never            1
                 とてもながい   1000/day`,
  );
});

it("no line is wider than the terminal, whose width is the default, and no character is lost", () => {
  const isTerminal = (columns: number) => vi.stubGlobal("process", { ...process, stdout: { columns } });
  for (const columns of [60, 45, 38, 30]) {
    isTerminal(columns);
    const text = tableText(ROWS);
    vi.unstubAllGlobals();
    // Each wide character has one that is not there.
    const lines = text
      .split("\n")
      .map((line) => line.replace(/[\u3000-\u9fff]/g, "xx").replace(/👩‍👩‍👧/g, "xx"));
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
    expect(text.replace(/\s/g, "").length).toBe(ROWS.flat().join("").replace(/\s/g, "").length);
    expect(text).toContain("key_5vNzBYuJQDuz ");
  }
});
