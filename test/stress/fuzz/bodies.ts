// Bodies: valid ones, and the ways to make a body or its media type invalid.

import fc from "fast-check";
import type { Operation } from "./document.ts";
import type { InvalidPart, Part } from "./requests.ts";
import { validValues, violationsOf } from "./values.ts";

type Body = NonNullable<Operation["body"]>;

/** Valid bodies, with all notations, media types and framings. */
export function validBody({ schema, mediaType, maxBytes }: Body): fc.Arbitrary<Part> {
  const [type, subtype] = mediaType.split("/");
  const types = fc.constantFrom(
    mediaType,
    mediaType,
    mediaType.toUpperCase(),
    `${mediaType}; charset=utf-8`,
    `${mediaType};charset=UTF-8;x=y`,
    // RFC 6839, section 3.1.
    `${type}/problem+${subtype}`,
  );
  const full = fc.tuple(validValues(schema), fc.constantFrom(0, 1, 1000)).map(([each, less]) => ({
    ...each,
    text: each.text + " ".repeat(Math.max(0, maxBytes - less - Buffer.byteLength(each.text))),
  }));
  const bodies = fc.oneof({ weight: 60, arbitrary: validValues(schema) }, { weight: 1, arbitrary: full });
  return fc
    .tuple(types, bodies, chunkings())
    .map(([contentType, { text, value }, chunkBytes]) =>
      bodyPart(contentType, Buffer.from(text), chunkBytes, value),
    );
}

function chunkings(): fc.Arbitrary<number | undefined> {
  return fc.constantFrom(undefined, undefined, undefined, undefined, 7, 1000);
}

function bodyPart(contentType: string, body: Uint8Array, chunkBytes?: number, value?: unknown): Part {
  return {
    headers: [["Content-Type", contentType]],
    body,
    chunkBytes,
    ...(value !== undefined && { value }),
  };
}

/** The ways to make a body invalid. */
export function invalidBody(body: Body): InvalidPart[] {
  const { schema, mediaType, maxBytes } = body;
  const good = validValues(schema).map(({ text }) => text);
  const slot = "body";
  const part = (texts: fc.Arbitrary<string>) =>
    fc
      .tuple(texts, chunkings())
      .map(([text, chunkBytes]) => bodyPart(mediaType, Buffer.from(text), chunkBytes));
  const invalid = (statuses: number[], what: string, parts: fc.Arbitrary<Part>): InvalidPart => ({
    slot,
    what: `body: ${what}`,
    part: parts,
    statuses,
  });
  const bytes = (parts: fc.Arbitrary<Uint8Array>) =>
    fc.tuple(parts, chunkings()).map(([each, chunkBytes]) => bodyPart(mediaType, each, chunkBytes));
  const padded = (extra: number) => (text: string) =>
    text + " ".repeat(Math.max(0, maxBytes + extra - Buffer.byteLength(text)));
  return [
    ...violationsOf(schema, slot).map(({ what, texts }) => ({
      slot,
      what,
      part: part(texts),
      statuses: [400],
    })),
    invalid(
      [400],
      "truncated",
      part(fc.tuple(good, fc.nat()).map(([text, length]) => truncate(text, length))),
    ),
    invalid(
      [400],
      "not JSON",
      part(fc.tuple(good, fc.constantFrom(...INVALID_JSON)).map(([text, spoil]) => spoil(text))),
    ),
    invalid(
      [400],
      "not UTF-8",
      bytes(
        fc
          .tuple(good, fc.nat(), fc.constantFrom(...INVALID_UTF8))
          .map(([text, at, bad]) => withBytes(text, at, bad)),
      ),
    ),
    invalid(
      [400],
      "nested too deeply",
      part(
        fc
          .tuple(fc.constantFrom("[", '{"a":'), fc.constantFrom(9_000, 10_000))
          .chain(([open, depth]) => good.map((text) => nested(text, open, depth))),
      ),
    ),
    invalid(
      [400],
      "missing",
      fc.constantFrom<Part>(
        { headers: [["Content-Type", mediaType]] },
        bodyPart(mediaType, Buffer.alloc(0)),
        bodyPart(mediaType, Buffer.from("  \n")),
      ),
    ),
    invalid(
      [413],
      "too large",
      fc
        .tuple(good, fc.constantFrom(1, 2, 1000, 60_000), chunkings())
        .map(([text, extra, chunkBytes]) =>
          bodyPart(mediaType, Buffer.from(padded(extra)(text)), chunkBytes && 1000),
        ),
    ),
    invalid(
      [415],
      "another media type",
      fc
        .tuple(good, fc.constantFrom(...OTHER_MEDIA_TYPES))
        .map(([text, type]) => bodyPart(type, Buffer.from(text))),
    ),
    invalid(
      [415],
      "no media type",
      good.map((text) => ({ body: Buffer.from(text) })),
    ),
    invalid(
      [415],
      "compressed",
      fc
        .tuple(good, fc.constantFrom("gzip", "br", "deflate", "zstd", "identity, gzip", "x"))
        .map(([text, encoding]) => ({
          headers: [
            ["Content-Type", mediaType],
            ["Content-Encoding", encoding],
          ],
          body: Buffer.from(text),
        })),
    ),
  ];
}

const OTHER_MEDIA_TYPES = [
  "text/plain",
  "text/json",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=x",
  "application/jsonp",
  "application/json-seq",
  "application/xml",
  "application/octet-stream",
  "application",
  "json",
  "*/*",
  "application/*",
  "application/json, text/plain",
  "text/plain; application/json",
  "",
];

/** A prefix of a text. No proper prefix of an object is JSON. */
function truncate(text: string, length: number): string {
  const whole = text.trim();
  return whole.slice(0, length % whole.length);
}

/** Changes that make the text of an object invalid JSON. */
const INVALID_JSON: ((text: string) => string)[] = [
  (text) => `${text},`,
  (text) => `${text}}`,
  (text) => `${text} ${text}`,
  (text) => `[${text}`,
  (text) => text.replace(/\}\s*$/, ",}"),
  (text) => text.replaceAll('"', "'"),
  (text) => `${text}\u0000`,
  (text) => `/* pet */ ${text}`,
  (text) => `${text} // pet`,
  (text) => `pet=${encodeURIComponent(text)}`,
  (text) => text.replace("{", "{a:1,"),
  (text) => text.replace("{", '{"a":\u000b1,'),
  (text) => text.replace("{", '{"a":"\t",'),
  (text) => text.replace("{", '{"a":"\\x41",'),
  (text) => text.replace("{", '{"a":undefined,'),
];

/** Invalid UTF-8 (RFC 3629): invalid bytes, overlong forms, surrogates, code points above U+10FFFF, truncated characters. */
const INVALID_UTF8 = [
  "ff",
  "fe",
  "80",
  "c080",
  "c1bf",
  "e08080",
  "eda080",
  "edbfbf",
  "f4908080",
  "f8888080",
  "e282",
  "c3",
].map((hex) => Buffer.from(hex, "hex"));

/** Inserts invalid UTF-8 into a text: in one of its strings, or anywhere. */
function withBytes(text: string, at: number, bad: Uint8Array): Uint8Array {
  const places = [...text.matchAll(/:\s*"/g)].map((match) => match.index + match[0].length);
  const place = at % 4 === 0 ? at % (text.length + 1) : (places[at % places.length] ?? 0);
  return Buffer.concat([Buffer.from(text.slice(0, place)), bad, Buffer.from(text.slice(place))]);
}

function nested(text: string, open: string, depth: number): string {
  const close = open === "[" ? "]" : "}";
  const inner = open === "[" ? "" : "1";
  return text.replace("{", () => `{"x":${open.repeat(depth)}${inner}${close.repeat(depth)},`);
}
