// 64-bit integers: their decimal digits, and the notations of JSON.

import { expect, it } from "vitest";
import { INT64_MAX, INT64_MIN, int64FromJsonNumber, parseInt64 } from "../../src/lib/int64.ts";
import fc from "../support/fast-check.ts";

const OUT_OF_RANGE = [INT64_MAX + 1n, INT64_MIN - 1n, 10n ** 19n, -(10n ** 400n)].map(String);
const NOT_CANONICAL = ["", "-", "+1", "01", "-0", "1.0", "1e3", "0x10", " 1", "1 ", "１", "1_0"];
const NO_INT64 = ["1e-1", "1e-999999999999", "9223372036854775807.1", "1e19", "1e999999999999"];

it("parseInt64 parses the decimal digits of every int64", () => {
  const anyInt64 = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });
  fc.assert(fc.property(anyInt64, (value) => parseInt64(`${value}`) === value));
  for (const value of [0n, INT64_MAX, INT64_MIN]) expect(parseInt64(`${value}`)).toBe(value);
});

it.each([...OUT_OF_RANGE, ...NOT_CANONICAL])("parseInt64 rejects %j", (text) => {
  expect(parseInt64(text)).toBeUndefined();
});

it.each([
  ["1E+3", 1000n],
  ["-0.0e5", 0n],
  ["0e999999999999", 0n],
  ["9223372036854775807.000", INT64_MAX],
  ["-922337203685477580.8e1", INT64_MIN],
  [`1${"0".repeat(60_000)}e-60000`, 1n],
])("the JSON number %s is the int64 %s", (source, value) => {
  expect(int64FromJsonNumber(source)).toBe(value);
});

it.each([...OUT_OF_RANGE, ...NO_INT64])("the JSON number %s is none", (source) => {
  expect(int64FromJsonNumber(source)).toBeUndefined();
});

it("a JSON number is an int64 if exact arithmetic says so, in every notation", () => {
  const whole = fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n });
  const fraction = fc.stringMatching(/^\d{1,8}$/);
  fc.assert(
    fc.property(whole, fraction, fc.integer({ min: -8, max: 8 }), (whole, fraction, exponent) => {
      const power = exponent - fraction.length;
      const dividend = BigInt(`${whole}${fraction}`) * 10n ** BigInt(Math.max(0, power));
      const divisor = 10n ** BigInt(Math.max(0, -power));
      const exact = dividend / divisor;
      const isInt64 = dividend % divisor === 0n && exact >= INT64_MIN && exact <= INT64_MAX;
      expect(int64FromJsonNumber(`${whole}.${fraction}e${exponent}`)).toBe(isInt64 ? exact : undefined);
    }),
    { numRuns: 2_000 },
  );
});
