// The requests: those that fit the document, and those that break it in exactly one place. A request is put together from
// parts, one for each parameter, one for the body, one for the key; to break it, one part is replaced by a broken one.

import fc from "fast-check";
import { type Operation, operationsOf, type Parameter } from "./document.ts";
import { type Header, headerText, type Request } from "./http.ts";
import type { Service } from "./service.ts";
import { CODE_POINT, plainTexts, plainWaysToBreak, type Way, waysToBreak, written } from "./values.ts";

export type Kind = "valid" | "broken" | "malformed";

/** What is sent, and what may be answered. */
export interface Case {
  kind: Kind;
  /** The operation it is for, or what else. */
  operation: string;
  /** What is broken, or what is special. */
  what: string;
  request: Request;
  statuses: number[];
  /** The value of the body, if it fits the document. */
  value?: unknown;
  /** What the list operation was asked for. */
  query?: Record<string, string>;
  /** The key, if it has a limit. */
  limited?: string;
  /** The methods that a 405 has to name. */
  allowed?: string[];
  /** The id that is asked for, and is there. */
  knownId?: string;
}

/** What only the service can give: values of parameters that no schema describes, by the name of the parameter. */
export type Given = Record<string, string[]>;

/** What one part adds to a request. */
interface Part {
  method?: string;
  path?: Record<string, string>;
  /** What stands between the ampersands. */
  query?: string[];
  headers?: Header[];
  body?: Uint8Array;
  chunkBytes?: number | undefined;
  value?: unknown;
  asked?: Record<string, string>;
  knownId?: string;
}

type Parts = Record<string, fc.Arbitrary<Part>>;

/** A way to break one part of a request. */
export interface BrokenPart {
  slot: string;
  what: string;
  part: fc.Arbitrary<Part>;
  statuses: number[];
}

const NO_PART: Part = {};

/** Everything that can be sent but for what is no HTTP. */
export function cases(document: object, service: Service, given: Given): fc.Arbitrary<Case> {
  const operations = operationsOf(document);
  const valid = operations.map((operation) => ({
    weight: operation.body ? 3 : 1,
    arbitrary: validCases(operation, service, given),
  }));
  const broken = operations.flatMap((operation) => brokenCases(operation, service, given));
  const others = [
    ...otherMethods(operations, service, given),
    ...otherPaths(operations, service),
    ...preflights(operations),
  ];
  const limited = operations.flatMap((operation) => limitedCases(operation, service, given));
  return fc.oneof(
    { weight: 33, arbitrary: fc.oneof(...valid) },
    { weight: 51, arbitrary: fc.oneof(...broken) },
    { weight: 9, arbitrary: fc.oneof(...others) },
    ...(limited.length > 0 ? [{ weight: 2, arbitrary: fc.oneof(...limited) }] : []),
  );
}

/** Requests that an operation has to accept. */
export function validCases(operation: Operation, service: Service, given: Given): fc.Arbitrary<Case> {
  return requests(operation, validParts(operation, service, given)).map(({ request, part }) =>
    caseOf(operation, "valid", "", request, part, acceptedStatuses(operation, part)),
  );
}

/** What is answered to a request that fits. Who asks for one thing may be told that it is not there, or no longer. */
function acceptedStatuses({ statuses, parameters }: Operation, { knownId }: Part): number[] {
  const asksForOne = parameters.some((each) => each.in === "path");
  return statuses.filter(
    (status) => status < 300 || (asksForOne && (status === 410 || (status === 404 && knownId === undefined))),
  );
}

/** For each way to break a request, requests that are broken in this way. */
function brokenCases(operation: Operation, service: Service, given: Given): fc.Arbitrary<Case>[] {
  const parts = validParts(operation, service, given);
  return brokenParts(operation, service, given).map(({ slot, what, part, statuses }) =>
    requests(operation, { ...parts, [slot]: part }).map(({ request, part: { asked: _, ...whole } }) =>
      caseOf(operation, "broken", what, request, whole, statuses),
    ),
  );
}

function caseOf(
  { operationId }: Operation,
  kind: Kind,
  what: string,
  request: Request,
  { value, asked, knownId }: Part,
  statuses: number[],
): Case {
  return {
    kind,
    operation: operationId,
    what,
    request,
    statuses,
    ...(value !== undefined && { value }),
    ...(asked !== undefined && { query: asked }),
    ...(knownId !== undefined && { knownId }),
  };
}

/** Requests made of parts. */
function requests(operation: Operation, parts: Parts): fc.Arbitrary<{ request: Request; part: Part }> {
  return fc.tuple(...Object.values(parts)).map((all) => {
    const {
      method = operation.method,
      path = {},
      query = [],
      headers = [],
      body,
      chunkBytes,
      ...rest
    } = merged(all);
    const target = operation.path.replace(/\{([^}]+)\}/g, (_, name: string) => path[name] ?? "");
    const search = query.length > 0 ? `?${query.join("&")}` : "";
    return { request: { method, target: target + search, headers, body, chunkBytes }, part: rest };
  });
}

function merged(parts: Part[]): Part {
  const whole: Part = Object.assign({}, ...parts);
  return {
    ...whole,
    path: Object.assign({}, ...parts.map(({ path }) => path)),
    query: parts.flatMap(({ query = [] }) => query),
    headers: parts.flatMap(({ headers = [] }) => headers),
    asked: Object.assign({}, ...parts.map(({ asked }) => asked)),
  };
}

/** The parts of a request that fits, by slot. */
function validParts(operation: Operation, service: Service, given: Given): Parts {
  const { method, parameters, body } = operation;
  return {
    // RFC 9110, section 9.3.2: HEAD is GET without the body.
    method:
      method === "GET"
        ? fc.constantFrom(NO_PART, NO_PART, NO_PART, { method: "HEAD" })
        : fc.constant(NO_PART),
    key: fc
      .constantFrom("Bearer", "Bearer", "bearer", "BEARER", "Bearer  ")
      .map((scheme) => ({ headers: [["Authorization", `${scheme} ${service.secret}`]] })),
    ...Object.fromEntries(parameters.map((each) => [slotOf(each), validParameter(each, given)])),
    ignored: method === "GET" ? ignoredQuery(parameters) : fc.constant(NO_PART),
    ...(body && { body: validBody(body) }),
  };
}

function slotOf(parameter: Parameter): string {
  return `${parameter.in} ${parameter.name}`;
}

function validParameter(parameter: Parameter, given: Given): fc.Arbitrary<Part> {
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
  return required ? present : fc.oneof(fc.constant(NO_PART), present, present);
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
function ignoredQuery(parameters: Parameter[]): fc.Arbitrary<Part> {
  const names = fc
    .constantFrom("page", "offset", "__proto__", "constructor", "toString", "Limit", "limit[]", "api_key", "")
    .filter((name) => parameters.every((each) => each.name !== name));
  const pairs = fc
    .tuple(names, fc.string({ maxLength: 8 }))
    .map(([name, text]) => `${name}=${encodeURIComponent(text)}`);
  const odd = fc.constantFrom("", "=", "&", "a", "%", "a=%zz", "a=%ff", "a=1&a=2");
  return fc.oneof(
    { weight: 4, arbitrary: fc.constant(NO_PART) },
    { weight: 1, arbitrary: fc.oneof(pairs, odd).map((query) => ({ query: [query] })) },
  );
}

type Body = NonNullable<Operation["body"]>;

function validBody({ schema, mediaType, maxBytes }: Body): fc.Arbitrary<Part> {
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

/** The ways to break a request to an operation in one place. */
export function brokenParts(operation: Operation, service: Service, given: Given): BrokenPart[] {
  const { parameters, body } = operation;
  return [
    ...parameters.flatMap((each) => brokenParameter(each, given)),
    ...(body === undefined ? [] : brokenBody(body)),
    ...brokenKeys(service),
  ];
}

function brokenParameter(parameter: Parameter, given: Given): BrokenPart[] {
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
  const repeated = fc
    .tuple(validParameter({ ...parameter, required: true }, given), fc.boolean())
    .map(([part]) => ({
      ...(part.query && { query: [...part.query, ...part.query] }),
      ...(part.headers && { headers: [...part.headers, ...part.headers] }),
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

function brokenBody(body: Body): BrokenPart[] {
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

function withBytes(text: string, at: number, bad: Uint8Array): Uint8Array {
  const characters = [...text];
  const place = at % (characters.length + 1);
  return Buffer.concat([
    Buffer.from(characters.slice(0, place).join("")),
    bad,
    Buffer.from(characters.slice(place).join("")),
  ]);
}

function nested(text: string, open: string, depth: number): string {
  const close = open === "[" ? "]" : "}";
  const inner = open === "[" ? "" : "1";
  return text.replace("{", () => `{"x":${open.repeat(depth)}${inner}${close.repeat(depth)},`);
}

/** Addresses that come hardly ever twice, not even while a failing request is made smaller. */
function addresses(): fc.Arbitrary<string> {
  const numbers = (max: number, count: number) =>
    fc.noShrink(fc.array(fc.noBias(fc.nat(max)), { minLength: count, maxLength: count }));
  const hex = (group: number) => group.toString(16);
  return fc.oneof(
    numbers(255, 4).map((bytes) => bytes.join(".")),
    numbers(0xffff, 8).map((groups) => groups.map(hex).join(":")),
    numbers(0xffff, 5).map((groups) => `${groups.map(hex).join(":")}::`),
  );
}

/** Ways to have no key. Each request is from another address, so that none of them is limited. */
function brokenKeys({ secret, unknown }: Service): BrokenPart[] {
  const slot = "key";
  const withAddress = (headers: fc.Arbitrary<Part>) =>
    fc.tuple(headers, addresses()).map(([part, address]) => ({
      ...part,
      headers: [...(part.headers ?? []), ["CF-Connecting-IP", address] as Header],
    }));
  const way = (what: string, credentials: fc.Arbitrary<string>): BrokenPart => ({
    slot,
    what: `key: ${what}`,
    statuses: [401],
    part: withAddress(credentials.map((value) => ({ headers: [["Authorization", value]] }))),
  });
  const near = fc
    .tuple(fc.nat(secret.length - 1), fc.constantFrom(..."abcXYZ019_-.é"))
    .map(([at, character]) => `Bearer ${headerText(secret.slice(0, at) + character + secret.slice(at + 1))}`);
  return [
    { slot, what: "key: none", statuses: [401], part: withAddress(fc.constant(NO_PART)) },
    {
      slot,
      what: "key: elsewhere",
      statuses: [401],
      part: withAddress(
        fc.constantFrom<Part>(
          { query: [`api_key=${secret}`, `access_token=${secret}`, `key=${secret}`] },
          {
            headers: [
              ["X-API-Key", secret],
              ["Cookie", `key=${secret}`],
            ],
          },
          { headers: [["Proxy-Authorization", `Bearer ${secret}`]] },
        ),
      ),
    },
    way(
      "nobody's",
      fc.constantFrom(...unknown).map((each) => `Bearer ${each}`),
    ),
    way(
      "changed in one character",
      near.filter((value) => value !== `Bearer ${secret}`),
    ),
    way(
      "of no form",
      fc.oneof(
        fc.constantFrom("", "Bearer", "Bearer ", "Bearer null", "Bearer pet_", `Bearer ${"a".repeat(5000)}`),
        fc.string({ unit: "grapheme-ascii", maxLength: 60 }).map((text) => `Bearer ${text}`),
      ),
    ),
    way(
      "longer or shorter",
      fc.constantFrom(
        `Bearer ${secret}0`,
        `Bearer ${secret.slice(0, -1)}`,
        `Bearer ${secret} ${secret}`,
        `Bearer ${secret},`,
        `Bearer "${secret}"`,
        `Bearer ${secret.toLowerCase()}`,
      ),
    ),
    way(
      "of another scheme",
      fc.constantFrom(
        `Basic ${secret}`,
        secret,
        `Token ${secret}`,
        `Bearer:${secret}`,
        `Bearer=${secret}`,
        `Bearer${secret}`,
        `Basic ${Buffer.from(`key:${secret}`).toString("base64")}`,
      ),
    ),
    {
      slot,
      what: "key: given twice",
      statuses: [401],
      part: withAddress(
        fc.constant({
          headers: [
            ["Authorization", `Bearer ${secret}`],
            ["Authorization", `Bearer ${secret}`],
          ],
        }),
      ),
    },
  ];
}

/** Requests with a key that is at its limit, or banned: refused, unless the operation costs nothing. */
function limitedCases(operation: Operation, service: Service, given: Given): fc.Arbitrary<Case>[] {
  const { limited, banned } = service;
  if (limited.length === 0) return [];
  const { method: isHead, ...parts } = validParts(operation, service, given);
  const kinds: [string, string[]][] = [
    ["key: limited", limited],
    ["key: banned", banned],
  ];
  return kinds.map(([what, secrets]) =>
    fc.constantFrom(...secrets).chain((secret) =>
      requests(operation, {
        ...parts,
        ...(isHead && { method: isHead }),
        key: fc.constant({ headers: [["Authorization", `Bearer ${secret}`]] }),
      }).map(({ request, part }) =>
        operation.isFree
          ? caseOf(operation, "valid", what, request, part, [200])
          : {
              ...caseOf(operation, "broken", what, request, part, [429]),
              limited: secret,
            },
      ),
    ),
  );
}

/** Methods that a server may know and the service does not. */
const METHODS = [
  "GET",
  "HEAD",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "TRACE",
  "PURGE",
  "PROPFIND",
  "COPY",
  "LOCK",
  "REPORT",
  "SEARCH",
];

/** Methods that a path does not have, with a key and without. */
function otherMethods(operations: Operation[], service: Service, given: Given): fc.Arbitrary<Case>[] {
  return operations.map((operation) => {
    const here = operations.filter(({ path }) => path === operation.path).map(({ method }) => method);
    const allowed = here.includes("GET") ? [...here, "HEAD"] : here;
    const { method: _, ...parts } = validParts(operation, service, given);
    const method = fc.constantFrom(...METHODS.filter((each) => !allowed.includes(each)));
    const withKey = requests(operation, { ...parts, method: method.map((each) => ({ method: each })) }).map(
      ({ request }): Case => ({
        kind: "broken",
        operation: "other",
        what: "method",
        request,
        statuses: [405],
        allowed,
      }),
    );
    const nobody = brokenKeys(service).map(({ part }) => part);
    const withoutKey = requests(operation, {
      ...parts,
      key: fc.oneof(...nobody),
      method: method.map((each) => ({ method: each })),
    }).map(
      ({ request }): Case => ({
        kind: "broken",
        operation: "other",
        what: "method, without a key",
        request,
        statuses: [401],
      }),
    );
    return fc.oneof(withKey, withKey, withoutKey);
  });
}

/** Paths under the root of the interface that no operation has, with a key and without. */
function otherPaths(operations: Operation[], service: Service): fc.Arbitrary<Case>[] {
  const paths = operations.map(({ path }) => path.replace(/\{[^}]+\}/g, "1"));
  const near = paths.flatMap((path) => [
    `${path}/`,
    `${path}//`,
    `${path}/x/y`,
    path.toUpperCase().replace(/^\/V1/, "/v1"),
    `${path}s`,
    path.replace(/(.)\//, "$1//"),
    `${path};a=b`,
    `${path}%2f1`,
  ]);
  const root = paths[0]?.split("/")[1] ?? "";
  const odd = [
    "",
    "/",
    "/store",
    "/store/orders",
    "/__proto__",
    "/constructor",
    "/pets.json",
    "/%00",
    "/%ff",
    "/%",
    "/*",
    "/:petId",
    "/pets%20",
    `/${"a".repeat(8000)}`,
    `${"/a".repeat(2000)}`,
  ].map((each) => `/${root}${each}`);
  const free = fc.webPath().map((path) => `/${root}/x${path}`);
  const target = fc.oneof(
    fc.constantFrom(...near, ...odd).filter((path) => !operations.some((each) => fits(each.path, path))),
    free,
  );
  const method = fc.constantFrom("GET", "GET", "HEAD", "POST", "DELETE", "PUT");
  const make = (what: string, key: fc.Arbitrary<Part>, statuses: number[]) =>
    fc.tuple(target, method, key).map(
      ([path, each, { headers = [], query = [] }]): Case => ({
        kind: "broken",
        operation: "other",
        what,
        request: { method: each, target: query.length > 0 ? `${path}?${query.join("&")}` : path, headers },
        statuses,
      }),
    );
  const good = fc.constant<Part>({ headers: [["Authorization", `Bearer ${service.secret}`]] });
  const nobody = fc.oneof(...brokenKeys(service).map(({ part }) => part));
  return [make("path", good, [404]), make("path, without a key", nobody, [401])];
}

/** Whether a path is one of a template. A slash at the end is a segment too. */
function fits(template: string, path: string): boolean {
  const expression = template
    .split("/")
    .map((each) => (each.startsWith("{") ? "[^/]+" : each))
    .join("/");
  return new RegExp(`^${expression}$`).test(path);
}

/** What a browser asks before it sends a request of another origin (Fetch standard, section 3.3). It has no key. */
function preflights(operations: Operation[]): fc.Arbitrary<Case>[] {
  const paths = operations.map(({ path }) => path.replace(/\{[^}]+\}/g, "1"));
  return [
    fc
      .tuple(
        fc.constantFrom(...paths),
        fc.constantFrom("GET", "POST", "DELETE"),
        fc.constantFrom("null", "https://pets.example", "http://localhost:3000"),
      )
      .map(
        ([target, method, origin]): Case => ({
          kind: "valid",
          operation: "preflight",
          what: "",
          request: {
            method: "OPTIONS",
            target,
            headers: [
              ["Origin", origin],
              ["Access-Control-Request-Method", method],
              ["Access-Control-Request-Headers", "authorization,content-type"],
            ],
          },
          statuses: [204],
        }),
      ),
  ];
}
