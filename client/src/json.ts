// JSON with exact 64-bit integers. JSON.parse rounds integers above 2^53, so in texts with long integers those of the int64 fields are
// quoted first. It runs where source text access (JSON.rawJSON) is missing, and is faster.

import type { Pet } from "./schema.ts";

/** The fields that are int64. The compiler refuses a list that lacks one of the schema. */
type Int64Field = { [Field in keyof Pet]-?: bigint extends Pet[Field] ? Field : never }[keyof Pet];
const INT64_FIELDS = Object.keys({ id: 0, categoryId: 0 } satisfies Record<Int64Field, 0>) as Int64Field[];

/** The shortest integers that JSON.parse may round have 16 digits. */
const LONG_INTEGER = /\d{16}/;

/** An int64 field with its value. A quote inside a string has a backslash before it, so this matches fields only. */
const INT64_FIELD = new RegExp(`(?<!\\\\)"(${INT64_FIELDS.join("|")})"\\s*:\\s*(-?\\d+)`, "g");

/** Parses a pet or an array of pets, as the service and `stringify` write them. Throws if the text is something else. */
export function parse(text: string): Pet | Pet[] {
  const value = JSON.parse(LONG_INTEGER.test(text) ? text.replace(INT64_FIELD, '"$1":"$2"') : text);
  for (const pet of Array.isArray(value) ? value : [value]) {
    for (const field of INT64_FIELDS) pet[field] = BigInt(pet[field]);
  }
  return value;
}

/**
 * Like JSON.stringify, which throws on a bigint: writes it as an integer. Throws a TypeError for an integer that is a number and may be
 * rounded already.
 */
export function stringify(value: unknown, space?: string | number): string {
  // Texts in the value can't contain it by accident or design.
  const mark = randomToken();
  const markBigint = function (this: Record<string, unknown>, key: string, converted: unknown) {
    // Not `converted`: some programs give BigInt.prototype a toJSON.
    const original = this[key];
    if (Number.isInteger(original) && !Number.isSafeInteger(original))
      throw new TypeError(`${original}: must be a bigint, because a number may be rounded`);
    return typeof original === "bigint" ? mark + original : converted;
  };
  return JSON.stringify(value, markBigint, space).replace(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1");
}

/** 128 random bits. crypto.randomUUID is missing on pages that are not served over HTTPS. */
export function randomToken(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) =>
    word.toString(16).padStart(8, "0"),
  ).join("");
}
