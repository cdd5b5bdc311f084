// Values near the bounds of a schema, valid or violating it in one place, and the validation that tells which. Values are JSON
// texts, because a number or a string has several notations.

import { Ajv } from "ajv";
import fc from "fast-check";
import type { Schema } from "./document.ts";
import { parseRequest } from "./json.ts";

/** The words of a text. */
export function words(text: string): string[] {
  return text.trim().split(/[ \n]+/);
}

/** The first is chosen `weight` times as often as each of the others. */
export function mostly<Value>(weight: number, first: fc.Arbitrary<Value>, ...others: fc.Arbitrary<Value>[]) {
  return fc.oneof({ weight, arbitrary: first }, ...others);
}

const INT64 = [-(2n ** 63n), 2n ** 63n - 1n] as const;

/** Odd values of parameters. */
const ODD_PLAIN = words("1,0 \u0661 \uff11 NaN 1n 1.0 1e1 +1 [1] null % 1\0 \ufeff1");

/** How far strings and arrays without a documented bound go. */
const SOME_CHARACTERS = 60;
const SOME_ITEMS = 5;

/** Any code point except surrogates. fast-check's own arbitrary takes a second to start. */
const CODE_POINT = fc
  .nat(0x10ffff - 0x800)
  .map((index) => String.fromCodePoint(index < 0xd800 ? index : index + 0x800));

const SPECIAL =
  "\u0001\t\n\u007f\u0085\u00a0\u0301\u200d\u2028\u202e\ufeff\ufffd\uffff'\"\\%<&;/🐕😀İßﬁ\u{10ffff}";
const ASCII = fc.nat(94).map((index) => String.fromCharCode(32 + index));
const CHARACTER = fc.oneof(ASCII, CODE_POINT, fc.constantFrom(...SPECIAL));

/** Trimming or normalising would change these. */
const UNNORMALISED =
  " |\t| a|a |\u00a0a|a\u3000|\ufeffa|a\n|e\u0301|\u212b|\ufb01|\u1e9b\u0323|\uac00\u11a8".split("|");

/** JSON texts of strings with lone surrogates, which only escapes can write. */
const ILL_FORMED = words('"\\ud800" "\\udc00" "a\\ud83d" "\\ude00\\ud83d" "Rex\\udfff!" "\\ud800\\u0041"');

const OF_ALL_TYPES = words(`null true false 1 0 -1 1.5 "1" "null" "" [] [1] ["available"] [[]] {} {"value":1}
  {"__proto__":1} -0.5 1e-1 0.1e0 9007199254740992.5 1e-400 10.00e-2 1e19 -1e19 1e400 -1e99999`);

/** Names with a meaning in JavaScript or in the service, but not in a body. */
const ODD_NAMES = words("__proto__ constructor prototype toString hasOwnProperty then toJSON 0 id $ref");
const ODD_VALUES = [...OF_ALL_TYPES, ...ILL_FORMED, '"\\u0000"', "[".repeat(90) + "]".repeat(90)];

const validator = new Ajv({ strict: false }).addFormat("int64", {
  type: "number",
  validate: (value) => Math.abs(value) <= 2 ** 63,
});

/** The member and the keyword that a JSON text violates. Undefined if it is valid. Throws if it is not JSON. */
export function violation(schema: Schema, json: string): string | undefined {
  validator.validate(schema, toValidate(parseRequest(json)));
  const [error] = validator.errors ?? [];
  return error && `${error.instancePath} ${error.keyword}`;
}

/**
 * A value for the validator, which knows no bigint and rounds numbers to doubles: integers beyond int64, fractions and ill-formed
 * strings become what it refuses.
 */
function toValidate(value: unknown): unknown {
  if (typeof value === "bigint") return BigInt.asIntN(64, value) === value ? Number(value) : 1e300;
  if (typeof value === "number") return 0.5;
  if (typeof value === "string") return value.isWellFormed() ? value : null;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(toValidate);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, toValidate(each)]));
}

/** JSON texts, valid or violating the schema in one place. */
export function jsonTexts(schema: Schema): fc.Arbitrary<string> {
  return mostly(6, textsOfType(schema), fc.constantFrom(...OF_ALL_TYPES));
}

/** Texts in paths, queries and headers, valid or violating the schema. */
export function plainTexts(schema: Schema): fc.Arbitrary<string> {
  const odd = fc.oneof(fc.constantFrom("", " 10", "10 ", ...ODD_PLAIN), fc.string({ unit: CODE_POINT }));
  if (schema.type === "integer") return mostly(3, integers(schema).map(String), odd);
  return mostly(3, textsOfType(schema).map(plainText), odd);
}

function plainText(json: string): string {
  return json.startsWith('"') ? JSON.parse(json) : json;
}

export function isValidPlain(schema: Schema, text: string): boolean {
  const isInteger = schema.type === "integer" && /^-?\d+$/.test(text);
  return violation(schema, isInteger ? `${BigInt(text)}` : JSON.stringify(text)) === undefined;
}

function textsOfType(schema: Schema): fc.Arbitrary<string> {
  const choices = schema.enum?.map((each) => JSON.stringify(each));
  if (choices !== undefined) return fc.constantFrom(...choices, ...choices, ...choices.flatMap(near));
  if (schema.type === "object") return objects(schema);
  if (schema.type === "array") return arrays(schema);
  if (schema.type === "integer") return integers(schema).chain(integerNotations);
  if (schema.type !== "string") return fc.constantFrom(...OF_ALL_TYPES);
  const notations = strings(schema).chain(textNotations);
  return mostly(9, notations, fc.constantFrom(...ILL_FORMED));
}

/** Texts similar to a choice. */
function near(choice: string): string[] {
  const text = `${JSON.parse(choice)}`;
  const changed = [text.toUpperCase(), text.slice(1), text.slice(0, -1), ` ${text}`, `${text} `, `${text}\0`];
  return [...changed, `${text},${text}`].map((each) => JSON.stringify(each));
}

/** The JSON texts of a string, with and without unnecessary escapes. */
function textNotations(value: string): fc.Arbitrary<string> {
  const plain = JSON.stringify(value);
  const escapes = value.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return fc.constantFrom(plain, plain, plain.replaceAll("/", "\\/"), `"${escapes.join("")}"`);
}

function integerNotations(value: bigint): fc.Arbitrary<string> {
  const same = [`${value}.0`, `${value}.000`, `${value}e0`, `${value}.0E+0`];
  const short = `${value}`.replace(/0+$/, (zeros) => `e${zeros.length}`);
  const others = value === 0n ? words("-0 0e5 -0.0 0e99999 0.0e-7") : [short, `${value}00e-2`];
  return fc.oneof(fc.constant(`${value}`), fc.constantFrom(...same, ...others));
}

/** Integers at the bounds of a schema, between them and far away. */
function integers({ minimum, maximum }: Schema): fc.Arbitrary<bigint> {
  const min = minimum === undefined ? INT64[0] : BigInt(minimum);
  const max = maximum === undefined ? INT64[1] : BigInt(maximum);
  const near = fc.constantFrom(min - 1n, min, max, max + 1n);
  const bounds = [min, max].flatMap((bound) => [bound - 2n ** 64n, bound + 2n ** 32n, bound * 2n]);
  const powers = [0n, 10n, 1000n, 2n ** 31n, 2n ** 53n, 2n ** 53n + 1n, -(2n ** 53n) - 1n, 10n ** 400n];
  const far = fc.constantFrom(...bounds, ...powers);
  return mostly(3, near, far, fc.bigInt({ min, max }));
}

/** Texts near the bounds of a schema. */
function strings({ minLength: min = 0, maxLength, pattern }: Schema): fc.Arbitrary<string> {
  const max = maxLength ?? min + SOME_CHARACTERS;
  const ofLength = (minLength: number, maxLength: number) =>
    fc.string({ unit: CHARACTER, minLength, maxLength, size: "max" });
  // Characters of one or two UTF-16 units and one to four UTF-8 bytes.
  const repeated = fc
    .tuple(fc.constantFrom("a", " ", "é", "\u0301", "𝒳", "\u{10ffff}"), fc.constantFrom(max, max + 1))
    .map(([text, length]) => text.repeat(length));
  const odd = fc.constantFrom(...UNNORMALISED);
  const refused = fc.constantFrom("", "\0", "a\0");
  const any = fc.oneof(ofLength(min, Math.min(max, min + 12)), ofLength(min, max), repeated, odd, refused);
  if (pattern === undefined) return any;
  const matching = fc.stringMatching(new RegExp(pattern, "u"), { size: "+1" });
  return mostly(3, any, matching, mutated(matching));
}

/** Arrays near the bounds of a schema, of valid items, except for one; some items occur twice. */
function arrays({ items = {}, minItems: min = 0, maxItems: max = min + SOME_ITEMS }: Schema) {
  const lengths = fc.constantFrom(...[0, min - 1, min, min + 1, max, max + 1].filter((each) => each >= 0));
  const valid = lengths.chain((length) =>
    fc.array(validTexts(items), { minLength: length, maxLength: length }),
  );
  const one = fc.tuple(valid, jsonTexts(items)).map(([texts, text]) => [...texts.slice(1), text]);
  const twice = valid.map((texts) => [...texts.slice(1), ...texts.slice(-1)]);
  const all = fc.tuple(mostly(3, valid, one, twice), fc.constantFrom(",", " ,\n "));
  return all.map(([texts, separator]) => `[${texts.join(separator)}]`);
}

/** Objects of valid members, except for one, with unknown members, in any order and with any white space. */
function objects({ properties = {}, required = [] }: Schema): fc.Arbitrary<string> {
  const members = Object.entries(properties);
  const valid = members.map(([name, schema]) =>
    required.includes(name) ? validTexts(schema) : fc.option(validTexts(schema)),
  );
  const known = members.map(([, schema], index) =>
    fc.tuple(...valid.with(index, fc.option(jsonTexts(schema), { freq: 15 }))),
  );
  const spaces = fc.constantFrom("", "", " ", "\n  ", "\t\r\n");
  return fc.tuple(fc.oneof(...known), UNKNOWN_MEMBERS, spaces).chain(([chosen, unknown, space]) => {
    const present = chosen.flatMap((text, index) => (text === null ? [] : [[members[index]?.[0], text]]));
    const texts = [...present, ...unknown].map(([name, text]) => `${JSON.stringify(name)}${space}:${text}`);
    const shuffled = fc.shuffledSubarray(texts, { minLength: texts.length });
    return shuffled.map((each) => `{${space}${each.join(`${space},${space}`)}}`);
  });
}

function validTexts(schema: Schema): fc.Arbitrary<string> {
  return jsonTexts(schema).filter((text) => violation(schema, text) === undefined);
}

/** Members of any name and value, which the service must ignore. */
const UNKNOWN_MEMBERS = fc.array(
  fc.tuple(
    fc.oneof(fc.constantFrom(...ODD_NAMES), fc.string({ maxLength: 12 })),
    fc.oneof(fc.json({ maxDepth: 3 }), fc.constantFrom(...ODD_VALUES)),
  ),
  { maxLength: 3 },
);

const BYTE = fc.nat(255).map((code) => String.fromCharCode(code));

/** What parsers of HTTP, URLs and JSON treat specially. */
const TOKENS =
  words(`, ; : = & && ? # / // /.. .. %00 %ff %zz %2e%2e%2f * \\ " ' < > { } [ ] ( ) null true NaN 0 00 - -0 +1 .5 1. 01
  0x1 1e1 1e400 1.5 \\u0000 \\ud800 \\x __proto__ constructor "a":1, \0 \x01 \x0b \x7f \xff \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82`);

const INSERTED = fc.oneof(BYTE, fc.constantFrom("", " ", "\t", "\n", "\r\n", "\r\n\r\n", ...TOKENS));

const CHANGE = fc.record({ at: fc.nat(), removed: fc.constantFrom(0, 0, 1, 1, 5), inserted: INSERTED });

/** Texts with one or two changes, at any place. */
export function mutated(texts: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.tuple(texts, fc.array(CHANGE, { minLength: 1, maxLength: 2 })).map(([text, changes]) =>
    changes.reduce((from, { at, removed, inserted }) => {
      const place = at % (from.length + 1);
      return from.slice(0, place) + inserted + from.slice(place + removed);
    }, text),
  );
}
