// JSON with exact 64-bit integers. JSON.parse rounds integers above 2^53, so in texts with long integers those of the int64 fields are
// quoted first. This runs where source text access (JSON.rawJSON) is missing, and is faster.

import type { Pet } from "./schema.ts";

/** The fields that are int64. The compiler refuses a list that lacks one of the schema. */
type Int64Field = { [Field in keyof Pet]-?: bigint extends Pet[Field] ? Field : never }[keyof Pet];
const INT64_FIELDS = Object.keys({ id: 0, categoryId: 0 } satisfies Record<Int64Field, 0>);

/** The shortest integers that JSON.parse may round have 16 digits. */
const LONG_INTEGER = /\d{16}/;

/** An int64 field whose value is such an integer. A quote inside a string has a backslash before it. */
const INT64_FIELD = /* @__PURE__ */ new RegExp(
  `(?<!\\\\)("(?:${INT64_FIELDS.join("|")})"\\s*:\\s*)(-?[1-9]\\d{15,})(?=\\s*[,}])`,
  "g",
);
/** The name of a field with escapes. */
const ESCAPED_NAME = /(?<!\\)"\w*(\\u00\w{2,})+"(?=\s*:)/g;

/**
 * Like JSON.parse, but an integer is a bigint in each field `id` and `categoryId`, at any depth. It reads what `stringify` writes, and the
 * bodies of the service. The result is not checked: `Value` only says what the caller expects.
 */
export function parse<Value = Pet | Pet[]>(text: string): Value {
  let json = text;
  let mark: string | undefined;
  if (LONG_INTEGER.test(text)) {
    // No string of the text begins with it. Without a backslash they are as they are written.
    mark = /[\x7f\\]/.test(text) ? randomToken() : "\x7f";
    const plain = text.replace(ESCAPED_NAME, (name) => JSON.stringify(JSON.parse(name)));
    json = plain.replace(INT64_FIELD, `$1"${mark}$2"`);
  }
  const root = { value: JSON.parse(json) };
  // Not recursive, because JSON.parse reads any depth.
  const objects: Record<string, unknown>[] = [root];
  for (const object of objects) {
    for (const name of INT64_FIELDS) {
      const value = object[name];
      if (Number.isSafeInteger(value)) object[name] = BigInt(value as number);
      else if (mark && typeof value === "string" && value.startsWith(mark))
        object[name] = BigInt(value.slice(mark.length));
    }
    for (const value of Object.values(object))
      if (value instanceof Object) objects.push(value as Record<string, unknown>);
  }
  return root.value;
}

/** Like JSON.stringify, but a bigint is an integer. Throws a TypeError for an integer that is a number and may be rounded already. */
export function stringify(value: unknown, space?: string | number): string {
  const mark = randomToken();
  const markBigint = function (this: Record<string, unknown>, key: string, converted: unknown) {
    // Not `converted`: some programs give BigInt.prototype a toJSON.
    const own = typeof this[key] === "bigint" ? this[key] : converted;
    if (Number.isInteger(own) && !Number.isSafeInteger(own))
      throw new TypeError(`${key || "value"}: must be a bigint`);
    return typeof own === "bigint" ? `${mark}${own}${mark}` : own;
  };
  return JSON.stringify(value, markBigint, space).replace(new RegExp(`"?${mark}"?`, "g"), "");
}

/** 128 random bits, which no text contains by accident or design. crypto.randomUUID is missing on pages that are not served over HTTPS. */
export function randomToken(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}
