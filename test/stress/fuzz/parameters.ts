// Parameters in paths, queries and headers: what fits the document, and the ways to break it.

import fc from "fast-check";
import type { Parameter } from "./document.ts";
import { headerText } from "./http.ts";
import { type BrokenPart, type Given, NO_PART, type Part } from "./requests.ts";
import { CODE_POINT, plainTexts, plainWaysToBreak, type Way } from "./values.ts";

/** Names the place of a parameter. */
export function slotOf(parameter: Parameter): string {
  return `${parameter.in} ${parameter.name}`;
}

/** A parameter that fits, or none if that is possible. */
export function validParameter(parameter: Parameter, given: Given): fc.Arbitrary<Part> {
  const { name, required, schema } = parameter;
  const known = given[name];
  const isId = parameter.in === "path";
  // What is given is no more than an example where the schema says what fits, and all there is where it does not.
  const texts =
    known === undefined || (isId && known.length > 0) ? plainTexts(schema) : fc.constantFrom(...known);
  const part = fc.tuple(texts, encodings()).map(([text, encode]) => parameterPart(parameter, text, encode));
  const ofKnown =
    known === undefined || !isId
      ? []
      : [
          fc
            .constantFrom(...known)
            .map((id) => ({ ...parameterPart(parameter, id, encodeURIComponent), knownId: id })),
        ];
  const present = fc.oneof(part, ...ofKnown);
  return required ? present : fc.oneof({ withCrossShrink: true }, fc.constant(NO_PART), present, present);
}

function parameterPart({ name, in: where }: Parameter, text: string, encode: (text: string) => string): Part {
  if (where === "path") return { path: { [name]: encode(text) } };
  if (where === "header") return { headers: [[name, headerText(text)]] };
  return {
    query: [`${encode === encodeURIComponent ? name : encode(name)}=${encode(text)}`],
    asked: { [name]: text },
  };
}

/** Ways to write a text in a URL; all mean the same. */
function encodings(): fc.Arbitrary<(text: string) => string> {
  return fc.constantFrom(encodeURIComponent, encodeURIComponent, encodeURIComponent, encodeAll);
}

function encodeAll(text: string): string {
  // A segment of dots would be one even so (URL standard, section 4.4).
  return [...Buffer.from(text)].map((byte: number) => `%${byte.toString(16).padStart(2, "0")}`).join("");
}

/** Query parameters that nobody knows. They are to be ignored. */
export function ignoredQuery(parameters: Parameter[]): fc.Arbitrary<Part> {
  const names = fc
    .constantFrom("page", "offset", "__proto__", "constructor", "toString", "Limit", "limit[]", "api_key", "")
    .filter((name) => parameters.every((each) => each.name !== name));
  const pairs = fc
    .tuple(names, fc.string({ maxLength: 8 }))
    .map(([name, text]) => `${name}=${encodeURIComponent(text)}`);
  const odd = fc.constantFrom("", "=", "&", "a", "%", "a=%zz", "a=%ff", "a=1&a=2");
  return fc.oneof(
    { withCrossShrink: true },
    { weight: 4, arbitrary: fc.constant(NO_PART) },
    { weight: 1, arbitrary: fc.oneof(pairs, odd).map((query) => ({ query: [query] })) },
  );
}

/** The ways to break a parameter. */
export function brokenParameter(parameter: Parameter, given: Given): BrokenPart[] {
  const { name, required, schema } = parameter;
  const slot = slotOf(parameter);
  // What is no id is the id of nothing.
  const statuses = parameter.in === "path" ? [404, 410] : [400];
  const opaque = given[name];
  const ways: Way[] =
    opaque !== undefined && schema.type === "string"
      ? waysToForge(opaque, slot)
      : plainWaysToBreak(schema, slot);
  const encode = parameter.in === "query" ? encodings() : fc.constant(encodeURIComponent);
  const broken = ways.map(({ what, texts }) => ({
    slot,
    what,
    statuses,
    part: fc
      .tuple(parameter.in === "header" ? texts.filter(isHeaderValue) : texts, encode)
      .map(([text, encoded]) => ({ ...parameterPart(parameter, text, encoded) })),
  }));
  const repeated = validParameter({ ...parameter, required: true }, given).map(({ query, headers }) => ({
    ...(query && { query: [...query, ...query] }),
    ...(headers && { headers: [...headers, ...headers] }),
  }));
  if (parameter.in !== "path") broken.push({ slot, what: `${slot}: given twice`, statuses, part: repeated });
  if (parameter.in === "query") {
    const empty = fc.constantFrom(name, `${name}=`, `${name}=%`, `${name}=%zz`, `${name}=%ff`);
    broken.push({
      slot,
      what: `${slot}: empty, or no text`,
      statuses,
      part: empty.map((each) => ({ query: [each] })),
    });
  }
  if (parameter.in === "header") {
    broken.push({ slot, what: `${slot}: empty`, statuses, part: fc.constant({ headers: [[name, ""]] }) });
  }
  if (required && parameter.in !== "path")
    broken.push({ slot, what: `${slot}: missing`, statuses, part: fc.constant(NO_PART) });
  return broken;
}

/** What HTTP lets a header be, without space at its ends, which is not part of it. */
function isHeaderValue(text: string): boolean {
  return !/[\0\r\n]/.test(text) && text.trim() === text && !/^[\t ]|[\t ]$/.test(text);
}

/** Texts that look like those that the service gave. */
function waysToForge(given: string[], place: string): Way[] {
  const ways: [string, fc.Arbitrary<string>][] = [
    [
      "made up",
      fc.oneof(
        fc.string({ unit: CODE_POINT, minLength: 1, maxLength: 60 }),
        fc.base64String(),
        fc.constantFrom("1", "0", "null", "AQ", "==", "__proto__", "2026-11-20", "a".repeat(5000)),
      ),
    ],
    [
      "changed in one character",
      fc
        .tuple(
          fc.constantFrom(...given),
          fc.nat(200),
          fc.constantFrom(..."ABCDEFGHabcdefgh0123456789-_+/= \u0000é"),
        )
        .map(([text, at, character]) => {
          const place = at % text.length;
          return text.slice(0, place) + character + text.slice(place + 1);
        }),
    ],
    [
      "cut off",
      fc
        .tuple(fc.constantFrom(...given), fc.nat(200))
        .map(([text, length]) => text.slice(0, length % text.length)),
    ],
    [
      "with more to it",
      fc
        .tuple(fc.constantFrom(...given), fc.constantFrom("A", "=", "==", " ", "\n", "\u0000", "AAAA"))
        .map((both) => both.join("")),
    ],
  ];
  return ways.map(([what, texts]) => ({
    what: `${place}: ${what}`,
    texts: texts.filter((text) => !given.includes(text)),
  }));
}
