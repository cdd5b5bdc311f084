// JSON with exact 64-bit integers. JSON.parse rounds integers above 2^53, so in texts with long integers those of the int64 fields are
// quoted first. It runs where source text access (JSON.rawJSON) is missing, and is faster.

import type { Pet } from "./schema.ts";

/** The fields that are int64. The compiler refuses a list that lacks one of the schema. */
type Int64Field = { [Field in keyof Pet]-?: bigint extends Pet[Field] ? Field : never }[keyof Pet];
const INT64_FIELDS = Object.keys({ id: 0, categoryId: 0 } satisfies Record<Int64Field, 0>);

/** The shortest integers that JSON.parse may round have 16 digits. */
const LONG_INTEGER = /\d{16}/;

/** An int64 field with its value. A quote inside a string has a backslash before it, so this matches fields only. */
const INT64_FIELD = new RegExp(`(?<!\\\\)"(${INT64_FIELDS.join("|")})"\\s*:\\s*(-?\\d+)`, "g");

/**
 * Like JSON.parse, but an integer is a bigint in each field `id` and `categoryId`, at any depth. It reads what `stringify` writes, and the
 * bodies of the service. The result is not checked: `Value` only says what the caller expects.
 */
export function parse<Value = Pet | Pet[]>(text: string): Value {
  const value = JSON.parse(LONG_INTEGER.test(text) ? text.replace(INT64_FIELD, '"$1":"$2"') : text);
  makeBigints(value);
  return value;
}

function makeBigints(value: unknown): void {
  if (Array.isArray(value)) {
    for (const each of value) makeBigints(each);
    return;
  }
  const fields = value as Record<string, unknown>;
  for (const name in fields) {
    const field = fields[name];
    if (typeof field === "object") makeBigints(field);
    else if (INT64_FIELDS.includes(name) && /^-?\d+$/.test(`${field}`))
      fields[name] = BigInt(field as string);
  }
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
      throw new TypeError(`${original}: must be a bigint`);
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
