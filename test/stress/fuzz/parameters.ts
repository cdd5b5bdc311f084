// Parameters in paths, queries and headers: valid ones, and the ways to make them invalid.

import fc from "fast-check";
import type { Parameter } from "./document.ts";
import { headerText } from "./http.ts";
import { type InvalidPart, NO_PART, type Part, type Samples } from "./requests.ts";
import { CODE_POINT, plainTexts, plainViolationsOf, type Violation } from "./values.ts";

/** The slot of a parameter. */
export function slotOf(parameter: Parameter): string {
  return `${parameter.in} ${parameter.name}`;
}

/** A valid parameter, or none if it is optional. */
export function validParameter(parameter: Parameter, samples: Samples): fc.Arbitrary<Part> {
  const { name, required, schema } = parameter;
  const known = samples[name];
  const isId = parameter.in === "path";
  // Samples are the only valid values of opaque parameters. Ids can have any valid value.
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

/** Equivalent encodings of a text in a URL. */
function encodings(): fc.Arbitrary<(text: string) => string> {
  return fc.constantFrom(encodeURIComponent, encodeURIComponent, encodeURIComponent, encodeAll);
}

function encodeAll(text: string): string {
  return [...Buffer.from(text)].map((byte: number) => `%${byte.toString(16).padStart(2, "0")}`).join("");
}

/** Unknown query parameters, which the service must ignore. */
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

/** The ways to make a parameter invalid. */
export function invalidParameter(parameter: Parameter, samples: Samples): InvalidPart[] {
  const { name, required, schema } = parameter;
  const slot = slotOf(parameter);
  // An invalid id is an unknown id.
  const statuses = parameter.in === "path" ? [404, 410] : [400];
  const opaque = samples[name];
  const violations: Violation[] =
    opaque !== undefined && schema.type === "string"
      ? forgedTexts(opaque, slot)
      : plainViolationsOf(schema, slot);
  const encode = parameter.in === "query" ? encodings() : fc.constant(encodeURIComponent);
  const invalid = violations.map(({ what, texts }) => ({
    slot,
    what,
    statuses,
    part: fc
      .tuple(parameter.in === "header" ? texts.filter(isHeaderValue) : texts, encode)
      .map(([text, encoded]) => ({ ...parameterPart(parameter, text, encoded) })),
  }));
  const repeated = validParameter({ ...parameter, required: true }, samples).map(({ query, headers }) => ({
    ...(query && { query: [...query, ...query] }),
    ...(headers && { headers: [...headers, ...headers] }),
  }));
  if (parameter.in !== "path") invalid.push({ slot, what: `${slot}: repeated`, statuses, part: repeated });
  if (parameter.in === "query") {
    const empty = fc.constantFrom(name, `${name}=`, `${name}=%`, `${name}=%zz`, `${name}=%ff`);
    invalid.push({
      slot,
      what: `${slot}: empty or not text`,
      statuses,
      part: empty.map((each) => ({ query: [each] })),
    });
  }
  if (parameter.in === "header") {
    invalid.push({ slot, what: `${slot}: empty`, statuses, part: fc.constant({ headers: [[name, ""]] }) });
  }
  if (required && parameter.in !== "path")
    invalid.push({ slot, what: `${slot}: missing`, statuses, part: fc.constant(NO_PART) });
  return invalid;
}

/** Whether HTTP allows a header value, and keeps it: white space at its ends is removed. */
function isHeaderValue(text: string): boolean {
  return !/[\0\r\n]/.test(text) && text.trim() === text && !/^[\t ]|[\t ]$/.test(text);
}

/** Texts similar to the samples. */
function forgedTexts(samples: string[], place: string): Violation[] {
  const violations: [string, fc.Arbitrary<string>][] = [
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
          fc.constantFrom(...samples),
          fc.nat(200),
          fc.constantFrom(..."ABCDEFGHabcdefgh0123456789-_+/= \u0000é"),
        )
        .map(([text, at, character]) => {
          const place = at % text.length;
          return text.slice(0, place) + character + text.slice(place + 1);
        }),
    ],
    [
      "truncated",
      fc
        .tuple(fc.constantFrom(...samples), fc.nat(200))
        .map(([text, length]) => text.slice(0, length % text.length)),
    ],
    [
      "extended",
      fc
        .tuple(fc.constantFrom(...samples), fc.constantFrom("A", "=", "==", " ", "\n", "\u0000", "AAAA"))
        .map((both) => both.join("")),
    ],
  ];
  return violations.map(([what, texts]) => ({
    what: `${place}: ${what}`,
    texts: texts.filter((text) => !samples.includes(text)),
  }));
}
