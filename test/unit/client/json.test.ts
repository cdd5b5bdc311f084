// JSON with 64-bit integers: exact, and otherwise what JSON.parse and JSON.stringify do.

import { expect, it } from "vitest";
import { parse, stringify } from "../../../client/src/index.ts";
import fc from "../../support/fast-check.ts";

const LONG = ["9223372036854775807", "-9223372036854775808", "9007199254740993", "1234567890123456"];
const NO_NUMBERS = ["0123456789012345678", "-01", "+1234567890123456", "1234567890123456."];

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const name = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.stringMatching(/^([\\",:{}[\]]|"id" ?: ?|\d{17}|\n|\ud800)*$/),
);
const status = fc.constantFrom("available", "pending", "sold");
const pet = fc.record(
  { id: int64, name, categoryId: int64, status },
  { requiredKeys: ["id", "name", "categoryId"] },
);
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };
const raw = (_: string, value: unknown) => (typeof value === "bigint" ? rawJSON(`${value}`) : value);

it("pets are read and written exactly, as with source text access", () => {
  fc.assert(
    fc.property(fc.array(pet), fc.constantFrom(undefined, 2, "\t"), (pets, space) => {
      const text = stringify(pets, space);
      expect(text).toBe(JSON.stringify(pets, raw, space));
      expect(parse(text)).toEqual(pets);
    }),
  );
  const own = [{ id: "pet-1", pets: { a: [{ id: 2n ** 62n, categoryId: null }] }, ids: [1] }, null, "id"];
  expect(parse(stringify(own))).toEqual(own);
});

it("stringify writes what JSON.stringify does, with integers for bigints, also if programs give them a toJSON", () => {
  const numbers = [fc.maxSafeInteger(), fc.double({ noInteger: true })];
  const values = fc.anything({
    values: [fc.boolean(), fc.string(), fc.constant(null), ...numbers],
    withBigInt: true,
    withDate: true,
  });
  const prototype = BigInt.prototype as { toJSON?: () => string };
  fc.assert(
    fc.property(values, fc.boolean(), (value, isPatched) => {
      const expected = JSON.stringify([value], raw);
      if (isPatched) prototype.toJSON = () => "patched";
      try {
        expect(stringify([value])).toBe(expected);
      } finally {
        delete prototype.toJSON;
      }
    }),
  );
});

/** What JSON.parse gives, with a bigint for each integer of an int64 field. Or the kind of its error. */
function expectedOf(text: string): unknown {
  const revive = (key: string, value: unknown, { source = "" }: { source?: string } = {}) => {
    if (typeof value !== "number" || !["id", "categoryId"].includes(key)) return value;
    if (/^-?\d+$/.test(source)) return BigInt(source);
    return Number.isSafeInteger(value) ? BigInt(value) : value;
  };
  return resultOf(() => JSON.parse(text, revive as (key: string, value: unknown) => unknown));
}

function resultOf(work: () => unknown): unknown {
  try {
    return { value: work() };
  } catch (error) {
    return (error as Error).name;
  }
}

/** Texts that are JSON, or nearly. */
const pieces = fc.constantFrom(
  ...String.raw`{ } [ ] , : " \ - .5 e3 0 id null true {"id": }, "__proto__": "categoryId": "x\\"`.split(" "),
  ...String.raw`"id" "id": \"id\": "i\u0064": "\u0069d": "\u00zz":`.split(" "),
  ...[" ", "\n", "\u00a0", "\x7f", "\ud800", '"id" :\t', ...LONG],
);
const value = fc.letrec<{ json: unknown }>((tie) => {
  const leaf = fc.oneof(
    fc.constantFrom("id", "\x7f1", "007", "", ...LONG, "\ud800"),
    fc.oneof(fc.integer(), fc.maxSafeInteger(), fc.double({ noNaN: true, noDefaultInfinity: true })),
    fc.constantFrom(null, true, 0, -0, 1e21, 2 ** 60),
  );
  const name = fc.oneof(
    fc.constantFrom("id", "categoryId", "__proto__", "ids", '"id', "toString"),
    fc.string(),
  );
  const record = fc.array(fc.tuple(name, tie("json"))).map((entries) => Object.fromEntries(entries));
  return { json: fc.oneof({ maxDepth: 4 }, leaf, fc.array(tie("json")), record) };
}).json;
const jsonText = fc
  .tuple(value, fc.constantFrom(undefined, 1, "\t"), fc.constantFrom(...LONG, ...NO_NUMBERS), fc.boolean())
  .map(([json, space, long, isEscaped]) => {
    const text = JSON.stringify(json, null, space).replaceAll(
      /(?<="(id|categoryId)": ?)-?[1-9]\d*(?=[,}\s])/g,
      long,
    );
    return isEscaped ? text.replaceAll('"id"', '"\\u0069\\u0064"') : text;
  });
/** With some characters replaced by others. */
const nearlyJson = fc
  .tuple(jsonText, fc.array(fc.tuple(fc.nat(), fc.nat(3), pieces), { maxLength: 3 }))
  .map(([text, changes]) =>
    changes.reduce((changed, [at, length, piece]) => {
      const index = at % (changed.length + 1);
      return changed.slice(0, index) + piece + changed.slice(index + length);
    }, text),
  );
const texts = fc.oneof(
  fc.json(),
  jsonText,
  nearlyJson,
  fc.array(pieces).map((all) => all.join("")),
);

it("parse accepts what JSON.parse accepts, and gives the same, except for bigints", () => {
  fc.assert(
    fc.property(texts, (text) => {
      expect(resultOf(() => parse(text))).toEqual(expectedOf(text));
    }),
    // U+00A0 is a blank of JavaScript, but not of JSON.
    {
      numRuns: 5_000,
      examples: [['{"id"\u00a0:1234567890123456789}'], ['{"id":\u00a01234567890123456789}']],
    },
  );
});

it("parse reads any depth", () => {
  const depth = 100_000;
  const text = `${"[".repeat(depth)}{"id":12345678901234567}${"]".repeat(depth)}`;
  let value = parse<unknown>(text);
  while (Array.isArray(value)) value = value[0];
  expect(value).toEqual({ id: 12345678901234567n });
});
