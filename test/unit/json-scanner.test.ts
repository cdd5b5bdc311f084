// The scanner reads bodies like JSON.parse, except values that no schema accepts.

import fc from "fast-check";
import { expect, it } from "vitest";
import { int64FromJsonNumber } from "../../src/lib/int64.ts";
import { JsonError, readMembers } from "../../src/lib/json-scanner.ts";

const NAMES = ["name", "id"];

const encode = (text: string) => new TextEncoder().encode(text);

/** The expected result of readMembers, by JSON.parse: "invalid" if it is not JSON. */
function expected(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text, (_name, each, { source = "" }) =>
      typeof each === "number" ? (int64FromJsonNumber(source) ?? Number.NaN) : each,
    );
  } catch {
    return "invalid";
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return emptied(value);
  const members = Object.entries(value).filter(([name]) => NAMES.includes(name));
  return Object.fromEntries(members.map(([name, each]) => [name, emptied(each)]));
}

function emptied(value: unknown): unknown {
  if (Array.isArray(value)) return [];
  return typeof value === "object" && value !== null ? {} : value;
}

function actual(text: string): unknown {
  try {
    return readMembers(encode(text), NAMES);
  } catch (error) {
    if (error instanceof JsonError && error.problem === "syntax") return "invalid";
    throw error;
  }
}

const name = fc.oneof(
  fc.constantFrom(...NAMES, "__proto__", "\\u006eam\\u0065", "\\u0069D", "nam\\/", ""),
  fc.string(),
);
const number = fc.constantFrom(..."0 -0 1 -12 1.5 1.0 1e2 1E+2 12e-1 9223372036854775808".split(" "));
const word = fc.constantFrom("true", "false", "null", '"\\ud83d\\udc08"', '"\\b\\n\\u00e9"', '"é🐈"');
const space = fc.constantFrom("", "", " ", "\n\t\r ");

const { value: anyText } = fc.letrec<{ value: string; list: string; object: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    number,
    word,
    fc.string({ unit: "binary" }).map((text) => JSON.stringify(text)),
    tie("list"),
    tie("object"),
  ),
  list: fc.tuple(space, fc.array(tie("value"))).map(([gap, each]) => `[${gap}${each.join(`${gap},`)}${gap}]`),
  object: fc
    .tuple(space, fc.array(fc.tuple(name, tie("value"))))
    .map(
      ([gap, each]) =>
        `{${gap}${each.map(([key, value]) => `${quoted(key)}${gap}:${gap}${value}`).join(`,${gap}`)}}${gap}`,
    ),
}));

/** Quotes a text. An escape in it stays one. */
function quoted(text: string): string {
  return text.includes("\\u") ? `"${text}"` : JSON.stringify(text);
}

it("agrees with JSON.parse on valid JSON and its members, and on nearly valid JSON", () => {
  const change = fc.tuple(
    fc.nat(),
    fc.nat({ max: 2 }),
    fc.constantFrom(...'"\\{}[]:,.-+eEu0129tfnx \n\0\u001f\u007f\u00a0é🐈', ""),
  );
  fc.assert(
    fc.property(anyText, change, (text, [at, deleted, inserted]) => {
      const start = at % (text.length + 1);
      // UTF-8 has no lone surrogates.
      const changed = (text.slice(0, start) + inserted + text.slice(start + deleted)).toWellFormed();
      for (const each of [text, changed]) expect(actual(each)).toEqual(expected(each));
    }),
    { numRuns: 4_000 },
  );
});

it("reads members after a byte order mark", () => {
  expect(readMembers(encode('\ufeff{"name":"a"}'), NAMES)).toEqual({ name: "a" });
});

it.each(["x", "é", "漢", "🐈", "\\n", "\\u0041", 'a\\"', "\\\\"])(
  "truncates a long string of %s, to more than the limit of a name",
  (part) => {
    const { name: read } = readMembers(encode(`{"name":"${part.repeat(5_000)}"}`), NAMES) as { name: string };
    expect([...read].length).toBeGreaterThan(340);
    expect(read.length).toBeLessThan(4_200);
  },
);
