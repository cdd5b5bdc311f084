// Values near the bounds of a schema, valid or not, and the validation that tells which. Values are JSON texts, because a number has
// several notations.

import { Ajv } from "ajv";
import { INT64_MAX, INT64_MIN, int64FromJsonNumber } from "../../../src/lib/int64.ts";
import fc from "../../support/fast-check.ts";
import type { Schema } from "./document.ts";

/** The words of a text. */
export function words(text: string): string[] {
  return text.trim().split(/[ \n]+/);
}

/** The first is chosen `weight` times as often as each of the others. */
export function mostly<Value>(weight: number, first: fc.Arbitrary<Value>, ...others: fc.Arbitrary<Value>[]) {
  return fc.oneof({ weight, arbitrary: first }, ...others);
}

/** Parses JSON. `toNumber` may replace numbers. Strings with lone surrogates become null, because no schema allows them. */
export function parse(json: string, toNumber: (source: string) => unknown): unknown {
  return JSON.parse(json, (_, value, { source = "" }) => {
    if (typeof value === "number") return toNumber(source) ?? value;
    return typeof value === "string" && !value.isWellFormed() ? null : value;
  });
}

const ajv = new Ajv({ strict: false, formats: { int64: true }, removeAdditional: "all", allErrors: true });

/** The member and the keyword that a JSON text violates. Undefined if it is valid. Throws if it is not JSON. */
export function violation(schema: Schema, json: string): string | undefined {
  // Doubles can't tell all fractions from integers, nor the bounds of int64 from their neighbours.
  ajv.validate(
    schema,
    parse(json, (source) => Number(int64FromJsonNumber(source) ?? 0.5)),
  );
  const [error] = ajv.errors ?? [];
  return error && `${error.instancePath} ${error.keyword}`;
}

/** The value of a valid JSON text with integers as bigint, and without the members that the schema does not have. */
export function documentedValue(schema: Schema, json: string): unknown {
  const value = parse(json, int64FromJsonNumber);
  // It removes members. Its errors mean nothing, because it takes no bigint for a number.
  ajv.validate(schema, value);
  return value;
}

/** Strings that trimming, normalising, escaping or a lenient reader would change. */
const ODD_STRINGS =
  "|\0|a\0|\t| a|a |\u00a0a|\ufeffa|a\n|e\u0301|\u212b|\ufb01|\uac00\u11a8|İß|\uffff|'\"\\%<&;/|\u2028".split(
    "|",
  );

/** JSON texts that hardly any schema allows. Only escapes can write lone surrogates. */
const ODD_JSON = [
  ...words(`null true false 1 0 -1 -0 0e99999 1.5 "1" "null" "" [] [1] ["available"] {} {"value":1} {"__proto__":1}
    -0.5 1e-1 9007199254740992.5 1e-400 1e19 -1e19 1e400 "\\u0000" "\\ud800" "a\\ud83d" "\\ude00\\ud83d"`),
  "[".repeat(90) + "]".repeat(90),
];

/** JSON texts, valid or violating the schema. */
export function jsonTexts(schema: Schema): fc.Arbitrary<string> {
  return mostly(12, textsOfType(schema), fc.constantFrom(...ODD_JSON));
}

/** Texts in paths, queries and headers, valid or violating the schema. */
export function plainTexts(schema: Schema): fc.Arbitrary<string> {
  const plain = jsonTexts(schema).map((json) => (json.startsWith('"') ? `${JSON.parse(json)}` : json));
  const odd = fc.constantFrom("", " 10", "10 ", ...words("1,0 \u0661 \uff11 NaN 1n 1.0 +1 % 1\0 \ufeff1"));
  return mostly(4, plain, mutated(plain), odd).filter((text) => text.isWellFormed());
}

export function isValidPlain(schema: Schema, text: string): boolean {
  const isInteger = schema.type === "integer" && /^-?\d+$/.test(text);
  return violation(schema, isInteger ? `${BigInt(text)}` : JSON.stringify(text)) === undefined;
}

function textsOfType(schema: Schema): fc.Arbitrary<string> {
  if (schema.type === "object") return objects(schema);
  if (schema.type === "array") return arrays(schema);
  if (schema.type === "integer") return integers(schema);
  const choices = fc.constantFrom(...(schema.enum ?? [""]));
  const texts = schema.enum ? mostly(6, choices, mutated(choices)) : strings(schema);
  return texts.map((text) => JSON.stringify(text));
}

function integers({ minimum, maximum }: Schema): fc.Arbitrary<string> {
  const [min, max] = [BigInt(minimum ?? INT64_MIN), BigInt(maximum ?? INT64_MAX)];
  const near = fc.constantFrom(min, max, min - 1n, max + 1n);
  const far = fc.constantFrom(2n ** 31n, 2n ** 53n + 1n, max + 2n ** 32n, min - 2n ** 64n, 10n ** 400n);
  const notations = (integer: bigint) => {
    const short = `${integer}`.replace(/(?<=\d)0+$/, (zeros) => `e${zeros.length}`);
    // The last one is no integer, which a double can't tell.
    return fc.constantFrom(
      `${integer}`,
      `${integer}.0E+0`,
      `${integer * 100n}e-2`,
      short,
      `${integer}.${"0".repeat(19)}1`,
    );
  };
  return mostly(6, fc.bigInt({ min, max }), near, far).chain(notations);
}

/** Up to 60 characters, if the schema has no maximum. */
function strings({ minLength: min = 0, maxLength: max = min + 60, pattern }: Schema): fc.Arbitrary<string> {
  const inside = fc.string({ unit: "binary", minLength: min, maxLength: max, size: "max" });
  // Characters of one or two UTF-16 units and one to four UTF-8 bytes.
  const longest = fc
    .tuple(fc.constantFrom("a", "é", "\u0301", "\u{10ffff}"), fc.constantFrom(max, max, max + 1))
    .map(([character, length]) => character.repeat(length));
  const any = mostly(6, inside, longest, fc.constantFrom(...ODD_STRINGS));
  if (pattern === undefined) return any;
  const matching = fc.stringMatching(new RegExp(pattern, "u"), { size: "+1" });
  return mostly(3, matching, mutated(matching), any);
}

/** Some items occur twice. Up to 5, if the schema has no maximum. */
function arrays({ items = {}, minItems: min = 0, maxItems: max = min + 5 }: Schema): fc.Arbitrary<string> {
  const some = fc.array(jsonTexts(items), { minLength: Math.max(min - 1, 0), maxLength: max + 1 });
  const twice = some.map((texts) => [...texts.slice(1), ...texts.slice(-1)]);
  return mostly(6, some, twice).map((texts) => `[${texts.join()}]`);
}

/** With unknown members, which the service must ignore. */
function objects({ properties = {}, required = [] }: Schema): fc.Arbitrary<string> {
  const members = Object.entries(properties).map(([name, schema]) => [name, jsonTexts(schema)] as const);
  const ofNames = (requiredKeys: string[]) => fc.record(Object.fromEntries(members), { requiredKeys });
  const odd = words("__proto__ constructor prototype toString hasOwnProperty then toJSON 0 id $ref");
  const names = fc.oneof(fc.constantFrom(...odd), fc.string());
  const values = fc.oneof(fc.json({ maxDepth: 3 }), fc.constantFrom(...ODD_JSON));
  const unknown = fc.array(fc.tuple(names, values), { maxLength: 3 });
  return fc.tuple(unknown, mostly(12, ofNames(required), ofNames([]))).map(([before, known]) => {
    const all = [...before, ...Object.entries(known)];
    return `{${all.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join()}}`;
  });
}

/** What parsers of HTTP, URLs and JSON treat specially, one character per byte. */
const TOKENS = ["", " ", "\t", "\r\n", "\r\n\r\n"].concat(
  words(`, ; : = & && ? # / // /.. .. %00 %ff %zz %2e%2e%2f * \\ " ' < > { } [ ] ( ) null true NaN 0 00 - -0 +1 .5 1. 01 0x1
    1e1 1e400 1.5 \\u0000 \\ud800 \\x __proto__ "a":1, \0 \x01 \x0b \x7f \xff \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82`),
);

/** Texts with a change at any place. */
export function mutated(texts: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const byte = fc.nat(255).map((code) => String.fromCharCode(code));
  const inserted = fc.oneof(byte, fc.constantFrom(...TOKENS));
  const all = fc.tuple(texts, fc.nat(), fc.constantFrom(0, 1, 5), inserted);
  return all.map(([text, place, removed, added]) => {
    const at = place % (text.length + 1);
    return text.slice(0, at) + added + text.slice(at + removed);
  });
}
