// JSON with exact integers: the same as JSON.parse and JSON.stringify in all else.

import { expect, it } from "vitest";
import { INT64_MAX, INT64_MIN, int64FromJsonNumber } from "../../src/lib/int64.ts";
import { parseJson, stringifyJson } from "../../src/lib/json.ts";
import fc from "../support/fast-check.ts";

const ODD_NUMBERS = "0 -0 1.0 1E+2 12e-1 1e400 1E-400 0.99999999999999999999 9007199254740992.5".split(" ");

const numberText = fc.oneof(
  fc.bigInt({ min: 2n * INT64_MIN, max: 2n * INT64_MAX }).map(String),
  fc.constantFrom(...ODD_NUMBERS),
  fc.integer({ min: -9, max: 30 }).map((power) => `12.5e${power}`),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((each) => JSON.stringify(each)),
);

it("a number is read as JSON.parse does if that is exact, as a bigint if it is a larger int64, as NaN if it would become an integer", () => {
  fc.assert(
    fc.property(numberText, (text) => {
      const rounded: number = JSON.parse(text);
      const int64 = int64FromJsonNumber(text);
      const ifSafe = int64 === undefined ? Number.NaN : rounded;
      expect(parseJson(text)).toBe(Number.isSafeInteger(rounded) ? ifSafe : (int64 ?? rounded));
    }),
    { numRuns: 2_000 },
  );
});

it("everything else is read and written as JSON.parse and JSON.stringify do", () => {
  // No double that JSON.stringify writes is a fraction which rounds to an integer.
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(JSON.parse(stringifyJson(parseJson(text)))).toStrictEqual(JSON.parse(text));
    }),
    { numRuns: 1_000 },
  );
});

it("integers are written with all their digits, at any depth", () => {
  expect(stringifyJson({ a: [INT64_MIN, { b: INT64_MAX }], c: "1" })).toBe(
    `{"a":[${INT64_MIN},{"b":${INT64_MAX}}],"c":"1"}`,
  );
});
