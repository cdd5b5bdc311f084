// 64-bit integers: their decimal digits, and the notations of JSON.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { INT64_MAX, INT64_MIN, int64FromJsonNumber, parseInt64 } from "../../src/lib/int64.ts";

const OUT_OF_RANGE = [INT64_MAX + 1n, INT64_MIN - 1n, 10n ** 19n, -(10n ** 400n)].map(String);
const NOT_CANONICAL = ["", "-", "+1", "01", "-0", "1.0", "1e3", "0x10", " 1", "1 ", "１", "1_0"];
const NOT_INTEGERS = ["1.5", "1e-1", "1e-999999999999", "9223372036854775807.1", "123456789012345678.5"];

describe("parseInt64", () => {
  it("parses the decimal digits of every int64", () => {
    const anyInt64 = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });
    fc.assert(fc.property(anyInt64, (value) => parseInt64(`${value}`) === value));
    for (const value of [0n, INT64_MAX, INT64_MIN]) expect(parseInt64(`${value}`)).toBe(value);
  });

  it.each([...OUT_OF_RANGE, ...NOT_CANONICAL])("rejects %j", (text) => {
    expect(parseInt64(text)).toBeUndefined();
  });
});

describe("int64FromJsonNumber", () => {
  it.each([
    ["1E+3", 1000n],
    ["-0.0e5", 0n],
    ["0e999999999999", 0n],
    ["9223372036854775807.000", INT64_MAX],
    ["-922337203685477580.8e1", INT64_MIN],
    ["9007199254740993", 9007199254740993n],
    [`1${"0".repeat(60_000)}e-60000`, 1n],
  ])("accepts %s", (source, value) => {
    expect(int64FromJsonNumber(source)).toBe(value);
  });

  it.each([...OUT_OF_RANGE, ...NOT_INTEGERS, "1e19", "1e999999999999"])("rejects %s", (source) => {
    expect(int64FromJsonNumber(source)).toBeUndefined();
  });

  it("agrees with exact arithmetic in every notation", () => {
    const parts = fc.tuple(
      fc.bigInt({ min: 0n, max: 10n ** 22n }),
      fc.integer({ min: 0, max: 8 }),
      fc.boolean(),
    );
    fc.assert(
      fc.property(parts, fc.integer({ min: -8, max: 8 }), ([digits, decimals, negative], exponent) => {
        const text = `${digits}`.padStart(decimals + 1, "0");
        const point = text.length - decimals;
        const mantissa = decimals > 0 ? `${text.slice(0, point)}.${text.slice(point)}` : text;
        const source = `${negative ? "-" : ""}${mantissa}e${exponent}`;

        const signed = negative ? -digits : digits;
        const power = BigInt(exponent - decimals);
        const divisor = power < 0n ? 10n ** -power : 1n;
        const exact = power < 0n ? signed / divisor : signed * 10n ** power;
        const isInt64 = signed % divisor === 0n && exact >= INT64_MIN && exact <= INT64_MAX;
        expect(int64FromJsonNumber(source)).toBe(isInt64 ? exact : undefined);
      }),
      { numRuns: 1_000 },
    );
  });
});
