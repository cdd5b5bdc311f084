// The parts of a request, called slots. Each has texts that are valid or nearly so, and a rule that tells which the service must
// refuse.

import { isUtf8 } from "node:buffer";
import fc from "fast-check";
import { MAX_BODY_BYTES } from "../../../src/http/body.ts";
import { newKeyId, newSecret } from "../../../src/keys/secret.ts";
import { methodsOf, OPERATIONS, type Operation, type Parameter } from "./document.ts";
import type { Request } from "./http.ts";
import type { Service } from "./service.ts";
import { isValidPlain, jsonTexts, mostly, mutated, plainTexts, violation, words } from "./values.ts";

/** What a slot adds to a request: `id` is the parameter in the path. */
export interface Part extends Partial<Request> {
  id?: string;
  query?: string;
}

/** A text of a slot. Undefined if the request lacks the part. */
export type Text = string | undefined;

export interface Slot {
  texts: fc.Arbitrary<Text>;
  /** The statuses that refuse a text: none if it is valid, undefined if the document does not tell. */
  refusals: (text: Text) => number[] | undefined;
  part: (text: string) => Part;
}

/** Values of parameters that only the service has, by parameter. */
export type Samples = Record<string, string[]>;

const METHODS = words("GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PURGE PROPFIND COPY LOCK REPORT SEARCH");
const MEDIA_TYPES = words(
  "text/plain text/json application/x-www-form-urlencoded application/json-seq json */*",
);
const CODINGS = ["identity", "Identity", "gzip", "br", "deflate", "zstd", "identity, gzip", "x"];

/** Well-formed keys that do not exist. */
const UNKNOWN_KEYS = Array.from({ length: 20 }, () => newSecret(newKeyId()));

/** The slots of an operation, by name. */
export function slotsOf(operation: Operation, service: Service, samples: Samples): Record<string, Slot> {
  const { parameters, body } = operation;
  return {
    method: methodSlot(operation),
    path: pathSlot(operation),
    key: keySlot(service),
    address: ADDRESS,
    ...Object.fromEntries(parameters.map((each) => [each.name, parameterSlot(each, samples[each.name])])),
    ...(body && {
      "media type": mediaTypeSlot(body),
      coding: CODING,
      framing: FRAMING,
      body: bodySlot(body),
    }),
  };
}

function methodSlot(operation: Operation): Slot {
  const { method } = operation;
  const same = method === "GET" ? ["GET", "GET", "GET", "HEAD"] : [method];
  const others = METHODS.filter((each) => !methodsOf(operation).includes(each));
  return {
    texts: fc.oneof(fc.constantFrom(...same), fc.constantFrom(...others)),
    refusals: (text = "") => (same.includes(text) ? [] : [405]),
    part: (text) => ({ method: text }),
  };
}

function pathSlot({ path }: Operation): Slot {
  const templates = OPERATIONS.map((each) => new RegExp(`^${each.path.replace(/\{[^}]+\}/g, "[^/]*")}$`));
  // Dot segments and special characters would change the path.
  const isOther = (text: string) =>
    /^\/v1\/[\w~=,@:!$&'()*+%/-]*$/.test(text) && !templates.some((template) => template.test(text));
  return {
    texts: fc.oneof(fc.constant(path), mutated(fc.constant(path.replace(/\{[^}]+\}/, "1")))),
    refusals: (text = "") => (text === path ? [] : isOther(text) ? [404] : undefined),
    part: (target) => ({ target }),
  };
}

/** A header. `refusals` gets only values that HTTP transports unchanged. */
function headerSlot(name: string, texts: fc.Arbitrary<Text>, refusals: Slot["refusals"]): Slot {
  const isPossible = (text: string) => /^[ -~\xa0-\xff]*$/.test(text) && text.trim() === text;
  return {
    texts,
    refusals: (text) => (text === undefined || isPossible(text) ? refusals(text) : undefined),
    part: (text) => ({ headers: [[name, text]] }),
  };
}

function keySlot({ secret, hasRealAddresses }: Service): Slot {
  const good = fc.constantFrom(`Bearer ${secret}`, `bearer ${secret}`, `BEARER  ${secret}`);
  const keys = [...UNKNOWN_KEYS, `${secret}, Bearer ${secret}`, "a".repeat(5000), "pet_"];
  const malformed = [undefined, "", "Bearer", `Basic ${secret}`, secret];
  const bad = fc.constantFrom(...keys.map((key) => `Bearer ${key}`), ...malformed);
  const texts = mostly(2, good, bad, mutated(good));
  return headerSlot("Authorization", texts, (text = "") => {
    if (text.match(/^bearer +([^ ]+)$/i)?.[1] === secret) return [];
    // The limit of an address may be reached.
    return hasRealAddresses ? [401, 429] : [401];
  });
}

/** Addresses that hardly ever repeat, so that the limit per address is not reached. */
const ADDRESS = headerSlot(
  "CF-Connecting-IP",
  fc.noShrink(
    fc
      .noBias(fc.bigInt({ min: 2n ** 124n, max: 2n ** 128n - 1n }))
      .map((address) => address.toString(16).replace(/.{4}(?=.)/g, "$&:")),
  ),
  () => [],
);

function parameterSlot({ name, required, schema, in: where }: Parameter, samples: string[] = []): Slot {
  const isOpaque = samples.length > 0 && schema.type === "string";
  const known = fc.constantFrom("1", ...samples);
  const other = isOpaque ? mutated(known) : plainTexts(schema);
  const values = mostly(2, other, known).filter((text) => text.isWellFormed());
  const isValid = (text: string) => (isOpaque ? samples.includes(text) : isValidPlain(schema, text));
  const absence = required ? [400] : [];
  if (where === "header") {
    const bytes = values.map((text) => Buffer.from(text).toString("latin1"));
    const texts = fc.oneof(fc.constant(undefined), bytes, mutated(bytes));
    return headerSlot(name, texts, (text) => (text === undefined ? absence : isValid(text) ? [] : [400]));
  }
  const encodings = fc.constantFrom(encodeURIComponent, encodeURIComponent, encodeAll);
  const encoded = fc.tuple(values, encodings).map(([text, encode]) => encode(text));
  if (where === "path") return idSlot(encoded, isValid);
  const field = encoded.map((text) => `${name}=${text}`);
  const twice = field.map((each) => `${each}&${each}`);
  const odd = fc.constantFrom(undefined, name, `${name}=%ff`, "page=2&__proto__=1&api_key=x&=&a=%zz");
  return {
    texts: mostly(3, field, odd, mutated(field), twice),
    refusals: (text = "") => {
      const [value, ...more] = new URLSearchParams(`&${text}`).getAll(name);
      if (!/^[!"$-~]*$/.test(text)) return undefined;
      return value === undefined ? absence : isValid(value) && more.length === 0 ? [] : [400];
    },
    part: (query) => ({ query }),
  };
}

/** The parameter in a path. An invalid id is an unknown id. */
function idSlot(encoded: fc.Arbitrary<string>, isValid: (text: string) => boolean): Slot {
  return {
    texts: mostly(3, encoded, mutated(encoded)),
    refusals: (text = "") => {
      // Only what is one segment, also after decoding. URLSearchParams decodes also what is not UTF-8.
      const value = new URLSearchParams(`id=${text.replace(/[&+]/g, encodeURIComponent)}`).get("id") ?? "";
      const isSegment = /^[!"$-.0->@-[\]-~]+$/.test(text) && !/[/\\]|^\.+$/.test(value);
      return isSegment ? (isValid(value) ? [] : [404, 410]) : undefined;
    },
    part: (id) => ({ id }),
  };
}

function encodeAll(text: string): string {
  return Buffer.from(text).toString("hex").replace(/../g, "%$&");
}

type Body = NonNullable<Operation["body"]>;

function mediaTypeSlot({ mediaType }: Body): Slot {
  const [type, subtype] = mediaType.split("/");
  // RFC 6838, section 4.2, and RFC 6839, section 3.1.
  const same = new RegExp(`^${type}/([\\w.!#$&^+-]+\\+)?${subtype} *(;|$)`, "i");
  const good = fc.constantFrom(
    mediaType,
    mediaType.toUpperCase(),
    `${mediaType};a=b`,
    `${type}/a+${subtype}`,
  );
  const bad = fc.constantFrom(undefined, ...MEDIA_TYPES);
  const texts = mostly(2, good, bad, mutated(good));
  return headerSlot("Content-Type", texts, (text = "") => (same.test(text) ? [] : [415]));
}

const CODING = headerSlot(
  "Content-Encoding",
  mostly(2, fc.constant(undefined), fc.constantFrom(...CODINGS)),
  (text = "identity") => (text.toLowerCase() === "identity" ? [] : [415]),
);

const FRAMING: Slot = {
  texts: fc.constantFrom(undefined, undefined, "1", "5"),
  refusals: () => [],
  part: (text) => ({ chunks: Number(text) }),
};

/** Its texts have one character per byte. JSON Schema has no keyword for the largest size. */
function bodySlot({ schema }: Body): Slot {
  const bytes = jsonTexts(schema).map((text) => Buffer.from(text).toString("latin1"));
  const sizes = fc.constantFrom(0, 0, 1, 2, 60_000).map((more) => MAX_BODY_BYTES + more);
  const long = fc.tuple(bytes, sizes).map(([text, size]) => text.padEnd(size));
  const truncated = fc.tuple(bytes, fc.nat()).map(([text, length]) => text.slice(0, length % text.length));
  return {
    texts: mostly(5, mostly(2, bytes, mutated(bytes)), long, truncated),
    refusals: (text = "") => {
      const body = Buffer.from(text, "latin1");
      if (body.length > MAX_BODY_BYTES) return [413];
      try {
        return isUtf8(body) && violation(schema, body.toString()) === undefined ? [] : [400];
      } catch {
        return [400];
      }
    },
    part: (text) => ({ body: Buffer.from(text, "latin1") }),
  };
}
