// JSON with exact integers: the same as JSON.parse and JSON.stringify in all else.

import fc from "fast-check";
import { expect, it } from "vitest";
import { INT64_MAX, INT64_MIN, int64FromJsonNumber } from "../../src/lib/int64.ts";
import { parseJson, stringifyJson } from "../../src/lib/json.ts";

const number = fc.oneof(
  fc.bigInt({ min: 2n * INT64_MIN, max: 2n * INT64_MAX }).map(String),
  fc.constantFrom(
    ..."0 -0 -12 1.0 1e2 1E+2 12e-1 1e400 1E-400 0.99999999999999999999 9007199254740992.5".split(" "),
  ),
  fc.integer({ min: -9, max: 30 }).map((power) => `12.5e${power}`),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((each) => JSON.stringify(each)),
);

const { json } = fc.letrec<{ json: string }>((tie) => ({
  json: fc.oneof(
    { depthSize: "small" },
    number,
    fc.constantFrom("true", "false", "null", '"\\ud83d"', '"\\u0000"', '"1.5e3"'),
    fc.string({ unit: "binary" }).map((each) => JSON.stringify(each)),
    fc.array(tie("json")).map((each) => `[ ${each.join(" ,")}]`),
    fc
      .array(fc.tuple(fc.oneof(fc.constantFrom("__proto__", "a"), fc.string()), tie("json")))
      .map((each) => `{${each.map(([name, value]) => `${JSON.stringify(name)} :${value}`).join()}}`),
  ),
}));

/** The text of a number. */
class Source extends String {}

/** Whether `value` is what a schema may take for a number of this text, and for no int64 if it is none. */
function isReadAs(value: unknown, text: string): boolean {
  const isInt64 = typeof value === "bigint" || Number.isSafeInteger(value);
  const int64 = int64FromJsonNumber(text);
  if (int64 !== undefined) return isInt64 && BigInt(value as bigint) === int64;
  return !isInt64 && (Number.isNaN(value) || value === Number(text));
}

/** Compares with what JSON.parse gives, in which numbers are their texts. */
function isSame(actual: unknown, expected: unknown): boolean {
  if (expected instanceof Source) return isReadAs(actual, `${expected}`);
  if (typeof expected !== "object" || expected === null) return actual === expected;
  const [names, others] = [Object.keys(expected), Object.keys(actual as object)];
  const get = (from: unknown, name: string) => Object.getOwnPropertyDescriptor(from, name)?.value;
  if (Array.isArray(expected) !== Array.isArray(actual) || names.join() !== others.join()) return false;
  return names.every((name) => isSame(get(actual, name), get(expected, name)));
}

const attempt = (parse: () => unknown) => {
  try {
    return parse();
  } catch (error) {
    return (error as Error).name;
  }
};

it("agrees with JSON.parse on JSON and on nearly valid JSON, and has each int64 exactly", () => {
  const change = fc.tuple(fc.nat(), fc.nat({ max: 2 }), fc.constantFrom(...'"\\{}[]:,.-+eE01tn \n\0é🐈', ""));
  const toSource = (_: string, value: unknown, { source = "" }: { source?: string }) =>
    typeof value === "number" ? new Source(source) : value;
  fc.assert(
    fc.property(json, change, (text, [at, deleted, inserted]) => {
      const start = at % (text.length + 1);
      const changed = text.slice(0, start) + inserted + text.slice(start + deleted);
      return [text, changed].every((each) =>
        isSame(
          attempt(() => parseJson(each)),
          attempt(() => JSON.parse(each, toSource)),
        ),
      );
    }),
    { numRuns: 4_000 },
  );
});

it("writes integers with all their digits, at any depth", () => {
  expect(stringifyJson({ a: [INT64_MIN, { b: INT64_MAX }], c: "1" })).toBe(
    `{"a":[${INT64_MIN},{"b":${INT64_MAX}}],"c":"1"}`,
  );
});
