// JSON (RFC 8259) with exact 64-bit integers. JSON.parse rounds numbers to doubles, so where that can make a difference, it also hands over
// their texts (json-source.d.ts).

import { int64FromJsonNumber } from "./int64.ts";

/** Part of a number whose double may differ from it. Integers of up to 15 digits are exact. */
const MAY_ROUND = /\d(?:[.eE]|\d{15})/;

/**
 * Parses like JSON.parse, except that an int64 beyond 2^53 is a `bigint`, and that a fraction which rounding would make an integer is NaN.
 * Throws SyntaxError, or RangeError for a text with such numbers that is nested too deeply.
 */
export function parseJson(text: string): unknown {
  return MAY_ROUND.test(text) ? JSON.parse(text, exactNumber) : JSON.parse(text);
}

function exactNumber(_name: string, value: unknown, { source = "" }: { source?: string }): unknown {
  if (!Number.isInteger(value)) return value;
  const int64 = int64FromJsonNumber(source);
  if (!Number.isSafeInteger(value)) return int64 ?? value;
  return int64 === undefined ? Number.NaN : value;
}

/** Writes like JSON.stringify, and a `bigint` as its digits. */
export function stringifyJson(value: unknown): string {
  return JSON.stringify(value, (_name, each) => (typeof each === "bigint" ? JSON.rawJSON(`${each}`) : each));
}
