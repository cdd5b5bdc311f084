// Values near the bounds of a schema, valid or violating it in one place, and the check that tells which. Values are JSON texts,
// because a number or a string has several notations.

import fc from "fast-check";
import type { Schema } from "./document.ts";
import { exactJson, parseRequest } from "./exact.ts";
import { mutated, words } from "./mutations.ts";

const KEYWORDS =
  words(`type enum format minimum maximum minLength maxLength pattern properties required items minItems maxItems
  anyOf default description examples title deprecated`);

const INT64 = [-(2n ** 63n), 2n ** 63n - 1n] as const;

/** Odd values of parameters. */
const ODD_PLAIN = [
  "",
  " 10",
  "10 ",
  "1,0",
  "\u0661",
  "\uff11",
  "NaN",
  "1n",
  "1.0",
  "1e1",
  "+1",
  "[1]",
  "null",
  "%",
  "1\0",
  "\ufeff1",
];

/** How far values without a documented bound go. */
const SOME_ITEMS = 5;
const SOME_CHARACTERS = 60;

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

/** JSON texts, valid or violating the schema in one place. */
export function jsonTexts(schema: Schema): fc.Arbitrary<string> {
  const { format = "int64" } = schema;
  const unknown = Object.keys(schema).find((each) => !KEYWORDS.includes(each) && !each.startsWith("x-"));
  if (unknown !== undefined || format !== "int64")
    throw new Error(`the fuzzer does not support ${unknown ?? format}`);
  return fc.oneof({ weight: 6, arbitrary: textsOfType(schema) }, fc.constantFrom(...OF_ALL_TYPES));
}

/** Texts in paths, queries and headers, valid or violating the schema. */
export function plainTexts(schema: Schema): fc.Arbitrary<string> {
  const odd = fc.oneof(fc.constantFrom(...ODD_PLAIN), fc.string({ unit: CODE_POINT }));
  if (schema.type === "integer") return fc.oneof({ weight: 2, arbitrary: integers(schema).map(String) }, odd);
  return fc.oneof({ weight: 3, arbitrary: textsOfType(schema).map(plainText) }, odd);
}

function plainText(json: string): string {
  return json.startsWith('"') ? JSON.parse(json) : json;
}

export function plainValue({ type }: Schema, text: string): unknown {
  if (type === "boolean" && /^(true|false)$/.test(text)) return text === "true";
  return type === "integer" && /^-?\d+$/.test(text) ? BigInt(text) : text;
}

/** The place in a value and the keyword that it violates. Undefined if it is valid. */
export function violation(schema: Schema, value: unknown, place = ""): string | undefined {
  const { anyOf, type, items = {}, minItems = 0, maxItems = Infinity } = schema;
  const [keyword] = [
    type !== undefined && !hasType(type, value) && "type",
    choicesOf(schema)?.includes(exactJson(value)) === false && "enum",
    anyOf?.every((each) => violation(each, value) !== undefined) && "anyOf",
    typeof value === "string" && violatedByText(schema, value),
    typeof value === "bigint" && violatedByInteger(schema, value),
    Array.isArray(value) && (value.length < minItems || value.length > maxItems) && "length",
  ].filter((each) => typeof each === "string");
  if (keyword !== undefined) return `${place}: ${keyword}`;
  if (Array.isArray(value)) return value.map((each) => violation(items, each, `${place}[]`)).find(Boolean);
  return type === "object" ? violatedByMembers(schema, value as object, place) : undefined;
}

function hasType(type: string, value: unknown): boolean {
  if (type === "integer") return typeof value === "bigint";
  if (type === "number") return typeof value === "bigint" || typeof value === "number";
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  return typeof value === type && value !== null && !Array.isArray(value);
}

function violatedByText({ minLength = 0, maxLength = Infinity, pattern = "" }: Schema, text: string) {
  const length = [...text].length;
  if (!text.isWellFormed()) return "Unicode";
  if (length < minLength) return "minLength";
  if (length > maxLength) return "maxLength";
  return new RegExp(pattern, "u").test(text) ? undefined : "pattern";
}

function violatedByInteger(schema: Schema, value: bigint): string | undefined {
  const [min = value, max = value] = rangeOf(schema);
  return value < min ? "minimum" : value > max ? "maximum" : undefined;
}

function violatedByMembers({ properties = {}, required = [] }: Schema, value: object, place: string) {
  const missing = required.find((name) => !Object.hasOwn(value, name));
  if (missing !== undefined) return `${place}.${missing}: required`;
  const known = Object.entries(value).filter(([name]) => Object.hasOwn(properties, name));
  return known
    .map(([name, each]) => violation(properties[name] ?? {}, each, `${place}.${name}`))
    .find(Boolean);
}

/** The JSON texts of an enumeration. */
function choicesOf({ enum: choices }: Schema): string[] | undefined {
  return choices?.map((each) => JSON.stringify(each));
}

function rangeOf({ minimum, maximum, format }: Schema): (bigint | undefined)[] {
  const [min, max] = format === "int64" ? INT64 : [];
  return [minimum === undefined ? min : BigInt(minimum), maximum === undefined ? max : BigInt(maximum)];
}

function validTexts(schema: Schema): fc.Arbitrary<string> {
  return jsonTexts(schema).filter((text) => violation(schema, parseRequest(text)) === undefined);
}

function textsOfType(schema: Schema): fc.Arbitrary<string> {
  const { type, anyOf, minimum = -1e9, maximum = 1e9 } = schema;
  const choices = choicesOf(schema);
  if (anyOf !== undefined) return fc.oneof(...anyOf.map(jsonTexts));
  if (choices !== undefined) return fc.constantFrom(...choices, ...choices, ...choices.flatMap(near));
  if (type === "object") return objects(schema);
  if (type === "array") return arrays(schema);
  if (type === "integer") return integers(schema).chain(integerNotations);
  if (type === "number") return fc.double({ min: minimum, max: maximum, noNaN: true }).map(String);
  if (type !== "string") return fc.constantFrom(...OF_ALL_TYPES);
  const notations = strings(schema).chain(textNotations);
  return fc.oneof({ weight: 9, arbitrary: notations }, fc.constantFrom(...ILL_FORMED));
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

function integers(schema: Schema): fc.Arbitrary<bigint> {
  const [min, max] = rangeOf(schema);
  const bounds = [min, max].filter((bound) => bound !== undefined);
  const near = bounds.flatMap((bound) => [bound - 1n, bound, bound + 1n]);
  const far = bounds.flatMap((bound) => [bound - 2n ** 64n, bound + 2n ** 32n, bound * 2n]);
  const powers = [0n, 1n, 10n, 1000n, 2n ** 31n, 2n ** 53n, 2n ** 53n + 1n, -(2n ** 53n) - 1n, 10n ** 400n];
  return fc.oneof(
    fc.constantFrom(...near, 0n),
    fc.constantFrom(...far, ...powers),
    fc.bigInt({ min: min ?? INT64[0], max: max ?? INT64[1] }),
  );
}

/** Texts near the bounds of a schema. */
function strings(schema: Schema): fc.Arbitrary<string> {
  const { minLength: min = 0, maxLength: max = min + SOME_CHARACTERS, pattern } = schema;
  const ofLength = (minLength: number, maxLength: number) =>
    fc.string({ unit: CHARACTER, minLength, maxLength, size: "max" });
  // Characters of one or two UTF-16 units and one to four UTF-8 bytes.
  const repeated = fc
    .tuple(fc.constantFrom("a", " ", "é", "\u0301", "𝒳", "\u{10ffff}"), fc.constantFrom(max, max + 1))
    .map(([text, length]) => text.repeat(length));
  const odd = fc.constantFrom("", "\0", ...UNNORMALISED, ...UNNORMALISED);
  const any = fc.oneof(
    ofLength(min, Math.min(max, min + 12)),
    ofLength(min, max),
    repeated,
    repeated,
    odd,
    odd,
  );
  if (pattern === undefined) return any;
  const matching = fc.stringMatching(new RegExp(pattern, "u"), { size: "+1" });
  return fc.oneof({ weight: 3, arbitrary: any }, matching, mutated(matching));
}

/** Arrays of valid items, except for one. */
function arrays({
  items = {},
  minItems = 0,
  maxItems = minItems + SOME_ITEMS,
}: Schema): fc.Arbitrary<string> {
  const others = fc.array(validTexts(items), { minLength: Math.max(0, minItems - 2), maxLength: maxItems });
  return fc.tuple(jsonTexts(items), others).map((all) => `[${all.flat().join(",")}]`);
}

/** Objects of valid members, except for one, in any order and with any white space. */
function objects({ properties = {}, required = [] }: Schema): fc.Arbitrary<string> {
  const names = Object.keys(properties);
  const missing = { nil: undefined, freq: 15 };
  const valid = Object.entries(properties).map(([name, each]) =>
    required.includes(name) ? validTexts(each) : fc.option(validTexts(each), { nil: undefined }),
  );
  const any = Object.values(properties).map((each) => fc.option(jsonTexts(each), missing));
  const spaces = fc.constantFrom("", "", " ", "\n  ", "\t\r\n");
  const some = fc.oneof(...any.map((each, index) => fc.tuple<Text[]>(...valid.with(index, each))));
  return fc.tuple(some, unknownMembers(names), spaces).chain(([texts, unknown, space]) => {
    const known = texts.flatMap((text, index) =>
      text === undefined ? [] : [`"${names[index]}"${space}:${text}`],
    );
    const members = [...known, ...unknown];
    const shuffled = fc.shuffledSubarray(members, { minLength: members.length });
    return shuffled.map((all) => `{${space}${all.join(`${space},${space}`)}}`);
  });
}

type Text = string | undefined;

/** Members of any name and value, which the service must ignore. */
function unknownMembers(names: string[]): fc.Arbitrary<string[]> {
  const name = fc.oneof(fc.constantFrom(...ODD_NAMES), fc.string({ maxLength: 12 }));
  const value = fc.oneof(fc.json({ maxDepth: 3 }), fc.constantFrom(...ODD_VALUES));
  const member = fc
    .tuple(
      name.filter((each) => !names.includes(each)),
      value,
    )
    .map(([each, text]) => `${JSON.stringify(each)}:${text}`);
  return fc.oneof(fc.constant<string[]>([]), fc.array(member, { minLength: 1, maxLength: 3 }));
}
