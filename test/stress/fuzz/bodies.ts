// Bodies: what fits the document, and the ways to break it, from the media type to the last byte.

import fc from "fast-check";
import type { Operation } from "./document.ts";
import type { BrokenPart, Part } from "./requests.ts";
import { waysToBreak, written } from "./values.ts";

type Body = NonNullable<Operation["body"]>;

/** Bodies that fit, in each way to write, announce and frame them. */
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
  const full = fc.tuple(written(schema), fc.constantFrom(0, 1, 1000)).map(([each, less]) => ({
    ...each,
    text: each.text + " ".repeat(Math.max(0, maxBytes - less - Buffer.byteLength(each.text))),
  }));
  const bodies = fc.oneof({ weight: 60, arbitrary: written(schema) }, { weight: 1, arbitrary: full });
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

/** The ways to break a body. */
export function brokenBody(body: Body): BrokenPart[] {
  const { schema, mediaType, maxBytes } = body;
  const good = written(schema).map(({ text }) => text);
  const slot = "body";
  const part = (texts: fc.Arbitrary<string>) =>
    fc
      .tuple(texts, chunkings())
      .map(([text, chunkBytes]) => bodyPart(mediaType, Buffer.from(text), chunkBytes));
  const broken = (statuses: number[], what: string, parts: fc.Arbitrary<Part>): BrokenPart => ({
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
    ...waysToBreak(schema, slot).map(({ what, texts }) => ({
      slot,
      what,
      part: part(texts),
      statuses: [400],
    })),
    broken([400], "cut off", part(fc.tuple(good, fc.nat()).map(([text, length]) => cutOff(text, length)))),
    broken(
      [400],
      "no JSON",
      part(fc.tuple(good, fc.constantFrom(...NO_JSON)).map(([text, spoil]) => spoil(text))),
    ),
    broken(
      [400],
      "no UTF-8",
      bytes(
        fc
          .tuple(good, fc.nat(), fc.constantFrom(...NO_UTF8))
          .map(([text, at, bad]) => withBytes(text, at, bad)),
      ),
    ),
    broken(
      [400],
      "nested too deeply",
      part(
        fc
          .tuple(fc.constantFrom("[", '{"a":'), fc.constantFrom(9_000, 10_000))
          .chain(([open, depth]) => good.map((text) => nested(text, open, depth))),
      ),
    ),
    broken(
      [400],
      "missing",
      fc.constantFrom<Part>(
        { headers: [["Content-Type", mediaType]] },
        bodyPart(mediaType, Buffer.alloc(0)),
        bodyPart(mediaType, Buffer.from("  \n")),
      ),
    ),
    broken(
      [413],
      "too large",
      fc
        .tuple(good, fc.constantFrom(1, 2, 1000, 60_000), chunkings())
        .map(([text, extra, chunkBytes]) =>
          bodyPart(mediaType, Buffer.from(padded(extra)(text)), chunkBytes && 1000),
        ),
    ),
    broken(
      [415],
      "of another media type",
      fc
        .tuple(good, fc.constantFrom(...OTHER_MEDIA_TYPES))
        .map(([text, type]) => bodyPart(type, Buffer.from(text))),
    ),
    broken(
      [415],
      "of no media type",
      good.map((text) => ({ body: Buffer.from(text) })),
    ),
    broken(
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

/** A part of a text, from its beginning. The text of an object is no JSON before its last brace. */
function cutOff(text: string, length: number): string {
  const whole = text.trim();
  return whole.slice(0, length % whole.length);
}

/** What makes an object no JSON. */
const NO_JSON: ((text: string) => string)[] = [
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

/** What is nowhere in UTF-8 (RFC 3629): bytes of no character, overlong ones, surrogates, beyond U+10FFFF, cut off. */
const NO_UTF8 = [
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

/** A text with bytes in it that are no UTF-8: in one of its strings, or anywhere. */
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
