// Valid values of a schema, and the ways to violate it in exactly one place. Values are JSON texts, because JSON has several
// notations of an integer. An unsupported keyword is an error: otherwise a new bound would be untested.

import fc from "fast-check";
import type { Schema } from "./document.ts";

/** A value and one of its JSON texts. Integers are bigint. */
export interface JsonValue {
  text: string;
  value: unknown;
}

/** A way to violate a schema, and texts that do. */
export interface Violation {
  what: string;
  texts: fc.Arbitrary<string>;
}

const SUPPORTED_KEYWORDS = new Set(
  "type enum const format minimum maximum minLength maxLength pattern properties required additionalProperties items minItems maxItems anyOf default description examples title deprecated".split(
    " ",
  ),
);

const INT64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n };

/** Without a documented bound. */
const LONGEST_TEXT = 60;
const LONGEST_ARRAY = 5;

/** Names with a meaning in JavaScript or in the service, but not in a body. */
const ODD_NAMES = [
  "__proto__",
  "constructor",
  "prototype",
  "toString",
  "valueOf",
  "hasOwnProperty",
  "then",
  "toJSON",
  "",
  "0",
  "id",
  "$ref",
];

/** Texts of values of each JSON type. */
const TEXTS_BY_TYPE: Record<string, string[]> = {
  null: ["null"],
  boolean: ["true", "false"],
  integer: ["1", "0", "-1"],
  number: ["1.5"],
  string: ['"1"', '"null"', '""'],
  array: ["[]", "[1]", '["available"]', "[[]]"],
  object: ["{}", '{"value":1}', '{"__proto__":1}'],
};

const ASCII = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index));

/** Any code point except surrogates. fast-check's own arbitrary takes a second to start. */
export const CODE_POINT = fc
  .nat(0x10ffff - 0x800)
  .map((index) => String.fromCodePoint(index < 0xd800 ? index : index + 0x800));

const CHARACTER: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...ASCII) },
  { weight: 3, arbitrary: CODE_POINT },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ..."\u0001\t\n\r\u001b\u007f\u0085\u00a0\u0301\u200d\u2028\u202e\ufeff\ufffd\uffff'\"\\%<&;/🐕😀İßﬁ\u{10ffff}",
    ),
  },
);

/** Valid values of a schema. */
export function validValues(schema: Schema): fc.Arbitrary<JsonValue> {
  requireSupported(schema);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(validValues));
  const choices = schema.enum ?? (schema.const === undefined ? undefined : [schema.const]);
  if (choices !== undefined) return fc.constantFrom(...choices).chain(constant);
  switch (schema.type) {
    case "string":
      return strings(schema).chain(constant);
    case "integer":
      return integers(schema).chain((value) => numberTexts(value).map((text) => ({ text, value })));
    case "number":
      return fc
        .double({ min: schema.minimum ?? -1e9, max: schema.maximum ?? 1e9, noNaN: true })
        .map((value) => ({ text: `${value}`, value }));
    case "boolean":
      return fc.boolean().map((value) => ({ text: `${value}`, value }));
    case "null":
      return fc.constant({ text: "null", value: null });
    case "array":
      return arrays(schema);
    case "object":
      return objects(schema);
    default:
      return fc.jsonValue().map((value) => ({ text: JSON.stringify(value), value }));
  }
}

/** The ways to violate a schema in one place. `place` names the value. */
export function violationsOf(schema: Schema, place: string): Violation[] {
  requireSupported(schema);
  const violations = [...wrongTypes(schema, place)];
  const add = (what: string, texts: fc.Arbitrary<string> | undefined) => {
    if (texts !== undefined) violations.push({ what: `${place}: ${what}`, texts });
  };
  if (schema.enum !== undefined) {
    const notIn = otherChoices(schema.enum);
    add(
      "not one of the enumeration",
      notIn?.map((text) => JSON.stringify(text)),
    );
  } else if (schema.type === "string") {
    for (const [what, texts] of invalidStrings(schema)) add(what, texts.chain(stringTexts));
    add("ill-formed Unicode", malformedUnicode());
  } else if (schema.type === "integer") {
    add(
      "not an integer",
      fc.constantFrom("1.5", "-0.5", "1e-1", "0.1e0", "9007199254740992.5", "1e-400", "10.00e-2"),
    );
    add("out of range", outOfRange(schema).chain(numberTexts));
    add("far out of range", fc.constantFrom("1e19", "-1e19", "1e400", "-1e400", "1e99999", "9".repeat(400)));
    add(
      "not a JSON number",
      fc.constantFrom("01", "+1", "1.", ".5", "0x10", "1_0", "NaN", "Infinity", "-", "1e", "1n"),
    );
  } else if (schema.type === "array") {
    violations.push(...invalidArrays(schema, place));
  } else if (schema.type === "object") {
    violations.push(...invalidObjects(schema, place));
  }
  return violations;
}

/** Valid values of a schema as plain text, for paths, queries and headers. */
export function plainTexts(schema: Schema): fc.Arbitrary<string> {
  requireSupported(schema);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum.map(String));
  if (schema.type === "integer") return integers(schema).map(String);
  if (schema.type === "string") return strings(schema);
  if (schema.type === "boolean") return fc.constantFrom("true", "false");
  throw new Error(`the fuzzer does not support parameters of type ${schema.type}`);
}

/** The ways to violate a schema in plain text. */
export function plainViolationsOf(schema: Schema, place: string): Violation[] {
  const named = (what: string, texts: fc.Arbitrary<string> | undefined): Violation[] =>
    texts === undefined ? [] : [{ what: `${place}: ${what}`, texts }];
  if (schema.enum !== undefined) return named("not one of the enumeration", otherChoices(schema.enum));
  if (schema.type === "string") return invalidStrings(schema).flatMap(([what, texts]) => named(what, texts));
  if (schema.type === "boolean")
    return named("not a boolean", fc.constantFrom("", "1", "TRUE", "yes", "null"));
  return [
    ...named(
      "not a decimal integer",
      fc.oneof(
        fc.constantFrom(
          ..."+1|1.0|1e1|0x10|0b1| 10|10 |1 0|1_0|1,0|--1|-|١|１|null|NaN|Infinity|true|undefined|1n|[1]|{}|1;2|%|1%".split(
            "|",
          ),
          "",
          "\u0000",
          "1\u0000",
          "1\n",
          "\ufeff1",
        ),
        fc
          .string({ unit: CODE_POINT, minLength: 1, maxLength: 40 })
          .filter((text) => !/^[-+]?[0-9]+$/.test(text) && !/^\.{1,2}$/.test(text)),
      ),
    ),
    ...named("out of range", outOfRange(schema)?.map(String)),
    ...named(
      "far out of range",
      fc.constantFrom("99999999999999999999", "-99999999999999999999", "9".repeat(400)),
    ),
  ];
}

function requireSupported(schema: Schema): void {
  const unknown = Object.keys(schema).find(
    (keyword) => !SUPPORTED_KEYWORDS.has(keyword) && !keyword.startsWith("x-"),
  );
  if (unknown !== undefined) throw new Error(`the fuzzer does not support the keyword ${unknown}`);
}

function constant(value: unknown): fc.Arbitrary<JsonValue> {
  if (typeof value === "string") return stringTexts(value).map((text) => ({ text, value }));
  return fc.constant({ text: JSON.stringify(value), value });
}

/** The JSON texts of a string, with and without unnecessary escapes. */
function stringTexts(value: string): fc.Arbitrary<string> {
  const plain = JSON.stringify(value);
  const escaped = value
    .split("")
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
    .join("");
  return fc.constantFrom(plain, plain, plain.replaceAll("/", "\\/"), `"${escaped}"`);
}

/** The JSON texts of an integer by JSON Schema (2020-12, core, section 4.2.3). */
function numberTexts(value: bigint): fc.Arbitrary<string> {
  const decimal = `${value}`;
  const zeros = value === 0n ? 0 : (decimal.match(/0+$/)?.[0].length ?? 0);
  const mantissa = decimal.slice(0, decimal.length - zeros);
  const texts = [
    decimal,
    decimal,
    decimal,
    `${decimal}.0`,
    `${decimal}.000`,
    `${decimal}e0`,
    `${decimal}.0e0`,
  ];
  if (value !== 0n) texts.push(`${decimal}00e-2`);
  if (zeros > 0) texts.push(`${mantissa}e${zeros}`, `${mantissa}.0E+${zeros}`);
  if (value === 0n) texts.push("-0", "0e5", "-0.0", "0e99999", "0.0e-7");
  return fc.constantFrom(...texts);
}

function rangeOf({ minimum, maximum, format }: Schema): { min: bigint | undefined; max: bigint | undefined } {
  const bounds = format === "int64" ? INT64 : { min: undefined, max: undefined };
  return {
    min: minimum === undefined ? bounds.min : BigInt(minimum),
    max: maximum === undefined ? bounds.max : BigInt(maximum),
  };
}

function integers(schema: Schema): fc.Arbitrary<bigint> {
  const { min = INT64.min, max = INT64.max } = rangeOf(schema);
  const corners = [
    min,
    min + 1n,
    max - 1n,
    max,
    0n,
    1n,
    10n,
    1000n,
    2n ** 53n,
    2n ** 53n + 1n,
    -(2n ** 53n) - 1n,
    2n ** 31n,
    2n ** 32n,
  ];
  const inside = corners.filter((each) => each >= min && each <= max);
  return fc.oneof(fc.constantFrom(...inside), fc.bigInt({ min, max }));
}

function outOfRange(schema: Schema): fc.Arbitrary<bigint> {
  const { min, max } = rangeOf(schema);
  const outside = [
    ...(max === undefined ? [] : [max + 1n, max + 2n, max * 2n + 2n]),
    ...(min === undefined ? [] : [min - 1n, min - 2n, min * 2n - 2n]),
    ...(max === undefined || max > INT64.max / 2n ? [] : [max + 2n ** 32n, max + 2n ** 64n]),
  ];
  return fc.constantFrom(...outside);
}

const SPACES = fc.constantFrom("", " ", "  ", "\t", "\n", "\u00a0", "\ufeff", "\u3000");

/** Texts of a length, in code points. */
function textsOf(min: number, max: number): fc.Arbitrary<string> {
  return fc.string({ unit: CHARACTER, minLength: min, maxLength: max, size: "max" });
}

function lengthOf(text: string): number {
  return [...text].length;
}

function strings(schema: Schema): fc.Arbitrary<string> {
  const { minLength: min = 0, maxLength, format } = schema;
  if (format === "date")
    return fc
      .date({ min: new Date(0), max: new Date("2099-12-31"), noInvalidDate: true })
      .map((date) => date.toISOString().slice(0, 10));
  const max = maxLength ?? min + LONGEST_TEXT;
  const lengths: fc.Arbitrary<string>[] = [
    textsOf(min, Math.min(max, min + 12)),
    textsOf(min, min),
    textsOf(min, max),
    // Trimming or normalising would change these.
    fc.tuple(SPACES, textsOf(0, 2), SPACES).map((all) => all.join("")),
    fc.constantFrom("e\u0301", "\u212b", "\ufb01", "\u1e9b\u0323", "\uac00\u11a8"),
  ];
  // Characters of two UTF-16 units and four UTF-8 bytes.
  const astral = (length: number) =>
    fc.constantFrom("😀", "\u{10ffff}", "𝒳").map((each) => each.repeat(length));
  if (maxLength !== undefined) lengths.push(textsOf(max, max), astral(max));
  const any = fc.oneof(...lengths).filter((text) => lengthOf(text) >= min && lengthOf(text) <= max);
  const { pattern } = schema;
  if (pattern === undefined) return any;
  const expression = new RegExp(pattern, "u");
  const fits = (text: string) => expression.test(text) && lengthOf(text) >= min && lengthOf(text) <= max;
  const often = fc.sample(any, { numRuns: 100, seed: 1 }).filter(fits).length > 50;
  return often
    ? any.filter(fits)
    : fc.stringMatching(expression).filter((text) => maxLength === undefined || fits(text));
}

/** The ways to make a string invalid that is still a string. */
function invalidStrings(schema: Schema): [string, fc.Arbitrary<string>][] {
  const { minLength = 0, maxLength, pattern, format } = schema;
  const violations: [string, fc.Arbitrary<string>][] = [];
  if (minLength > 0)
    violations.push(["too short", minLength === 1 ? fc.constant("") : textsOf(0, minLength - 1)]);
  if (maxLength !== undefined) {
    const fill = (text: string, more: number) => text.repeat(maxLength + more);
    const tooLong = fc.tuple(fc.constantFrom("a", " ", "é", "😀", "\u0301"), fc.constantFrom(1, 1, 2, 100));
    violations.push(["too long", tooLong.map(([text, more]) => fill(text, more))]);
  }
  if (pattern !== undefined) {
    const expression = new RegExp(pattern, "u");
    const good = strings(schema);
    const odd = fc.constantFrom("\u0000", "\u0001", " ", "\u007f", "é", "😀", '"', "\\", "a".repeat(256));
    const bad = fc
      .tuple(good, fc.nat(300), odd)
      .map(([text, at, inserted]) => {
        const all = [...text];
        const without = lengthOf(text) === maxLength ? all.slice(1) : all;
        without.splice(at % (without.length + 1), 0, inserted);
        return without.join("");
      })
      .filter((text) => !expression.test(text) && lengthOf(text) <= (maxLength ?? Infinity));
    const breaks = fc
      .sample(fc.tuple(good, odd), { numRuns: 200, seed: 1 })
      .some(([text, inserted]) => !expression.test(inserted + text.slice(1)));
    if (breaks) violations.push(["not matching the pattern", bad]);
  }
  if (format === "date")
    violations.push(["not a date", fc.constantFrom("", "2026-13-01", "2026-02-30", "2026-1-1", "yesterday")]);
  return violations;
}

/** JSON texts of strings with lone surrogates, which only escapes can write. */
function malformedUnicode(): fc.Arbitrary<string> {
  return fc.constantFrom(
    '"\\ud800"',
    '"\\udc00"',
    '"a\\ud83d"',
    '"\\ude00\\ud83d"',
    '"Rex \\udfff!"',
    '"\\ud800\\u0041"',
  );
}

/** Strings outside an enumeration, similar to its values or not. */
function otherChoices(choices: unknown[]): fc.Arbitrary<string> {
  const texts = choices.filter((each): each is string => typeof each === "string");
  const near = texts.flatMap((each) => [
    each.toUpperCase(),
    ` ${each}`,
    `${each} `,
    each.slice(1),
    each.slice(0, -1),
    `${each}\u0000`,
    `${each},${each}`,
    `${each[0]?.toUpperCase()}${each.slice(1)}`,
  ]);
  return fc
    .oneof(
      fc.constantFrom("", "null", "undefined", "__proto__", "0", "toString", ...near),
      fc.string({ unit: CODE_POINT, maxLength: 30 }),
    )
    .filter((text) => !texts.includes(text));
}

function wrongTypes(schema: Schema, place: string): Violation[] {
  const types = new Set((schema.anyOf ?? [schema]).flatMap((each) => typesOf(each)));
  if (types.size === 0) return [];
  return Object.entries(TEXTS_BY_TYPE)
    .filter(([type]) => !types.has(type) && !(type === "integer" && types.has("number")))
    .filter(([type]) => !(type === "number" && types.has("integer")))
    .map(([type, texts]) => ({ what: `${place}: ${type} instead`, texts: fc.constantFrom(...texts) }));
}

function typesOf({ type, enum: choices, const: constant }: Schema): string[] {
  if (type !== undefined) return [type];
  const values = choices ?? (constant === undefined ? [] : [constant]);
  return values.map((each) => (each === null ? "null" : typeof each));
}

function arrays({
  items = {},
  minItems = 0,
  maxItems = minItems + LONGEST_ARRAY,
}: Schema): fc.Arbitrary<JsonValue> {
  return fc.array(validValues(items), { minLength: minItems, maxLength: maxItems }).map((all) => ({
    text: `[${all.map(({ text }) => text).join(",")}]`,
    value: all.map(({ value }) => value),
  }));
}

function invalidArrays({ items = {}, minItems = 0, maxItems }: Schema, place: string): Violation[] {
  const good = validValues(items).map(({ text }) => text);
  const of = (length: number) =>
    fc.array(good, { minLength: length, maxLength: length }).map((all) => `[${all.join(",")}]`);
  return [
    ...(minItems > 0 ? [{ what: `${place}: too few`, texts: of(minItems - 1) }] : []),
    ...(maxItems !== undefined ? [{ what: `${place}: too many`, texts: of(maxItems + 1) }] : []),
    ...violationsOf(items, `${place}[]`).map(({ what, texts }) => ({
      what,
      texts: fc
        .tuple(
          texts,
          fc.array(good, {
            minLength: Math.max(0, minItems - 1),
            maxLength: Math.max(0, (maxItems ?? minItems + 3) - 1),
          }),
        )
        .map((all) => `[${all.flat().join(",")}]`),
    })),
  ];
}

/** The texts of unknown members with any value, which the service must ignore. */
function unknownMembers(names: string[]): fc.Arbitrary<string[]> {
  const free = fc
    .oneof(fc.constantFrom(...ODD_NAMES), fc.string({ maxLength: 12 }))
    .filter((name) => !names.includes(name));
  const values = fc.oneof(
    fc.json({ maxDepth: 3 }),
    fc.constantFrom(
      "null",
      "1e400",
      "-0",
      "{}",
      '{"name":5}',
      '"\\ud800"',
      '"\\u0000"',
      "[".repeat(90) + "]".repeat(90),
    ),
  );
  const members = fc.tuple(free, values).map(([name, text]) => `${JSON.stringify(name)}:${text}`);
  return fc.oneof(
    { withCrossShrink: true },
    { weight: 3, arbitrary: fc.constant<string[]>([]) },
    { weight: 2, arbitrary: fc.array(members, { minLength: 1, maxLength: 3 }) },
  );
}

function objects(schema: Schema): fc.Arbitrary<JsonValue> {
  const { properties = {}, required = [] } = schema;
  const members = Object.entries(properties).map(([name, each]) =>
    required.includes(name) ? validValues(each) : fc.option(validValues(each), { nil: undefined }),
  );
  return fc.tuple(fc.tuple(...members), layouts(schema)).map(([all, layout]) => {
    const given = Object.keys(properties).flatMap((name, index) => {
      const member = all[index];
      return member === undefined ? [] : [{ name, ...member }];
    });
    return {
      text: lay(given, layout),
      value: Object.fromEntries(given.map(({ name, value }) => [name, value])),
    };
  });
}

/** The notation of an object: unknown members, order of members, and white space. */
interface Layout {
  others: string[];
  order: number[];
  space: string;
}

function layouts({ properties = {}, additionalProperties }: Schema): fc.Arbitrary<Layout> {
  const names = Object.keys(properties);
  return fc.record({
    others: additionalProperties === false ? fc.constant([]) : unknownMembers(names),
    order: fc.array(fc.nat(9), { minLength: names.length + 3, maxLength: names.length + 3 }),
    space: fc.constantFrom("", "", " ", "\n  ", "\t\r\n"),
  });
}

function lay(members: { name: string; text: string }[], { others, order, space }: Layout): string {
  const texts = [...members.map(({ name, text }) => `${JSON.stringify(name)}:${space}${text}`), ...others];
  const sorted = texts
    .map((text, index) => ({ text, place: order[index] ?? 0 }))
    .sort((a, b) => a.place - b.place)
    .map(({ text }) => text);
  return `{${space}${sorted.join(`${space},${space}`)}${space}}`;
}

function invalidObjects(schema: Schema, place: string): Violation[] {
  const { properties = {}, required = [], additionalProperties } = schema;
  /** The object with one member replaced or omitted. */
  const withMember = (replaced: string, texts: fc.Arbitrary<string | undefined>) => {
    const rest = {
      ...schema,
      properties: Object.fromEntries(Object.entries(properties).filter(([name]) => name !== replaced)),
    };
    const others = Object.entries(rest.properties).map(([name, each]) =>
      (required.includes(name) ? validValues(each) : fc.option(validValues(each), { nil: undefined })).map(
        (member) => member && { name, text: member.text },
      ),
    );
    // The layout of the whole schema, so that no unknown member has this name.
    return fc.tuple(texts, fc.tuple(...others), layouts(schema)).map(([text, all, layout]) => {
      const given = all.filter((each) => each !== undefined);
      return lay(text === undefined ? given : [{ name: replaced, text }, ...given], layout);
    });
  };
  const members = Object.entries(properties).flatMap(([name, each]) =>
    violationsOf(each, `${place}.${name}`).map(({ what, texts }) => ({
      what,
      texts: withMember(name, texts),
    })),
  );
  const missing = required.map((name) => ({
    what: `${place}.${name}: missing`,
    texts: withMember(name, fc.constant(undefined)),
  }));
  if (additionalProperties !== false) return [...members, ...missing];
  const texts = fc
    .constantFrom(...ODD_NAMES.filter((name) => !(name in properties)))
    .chain((name) => withMember(name, fc.constant("1")));
  return [...members, ...missing, { what: `${place}: an unknown member`, texts }];
}
