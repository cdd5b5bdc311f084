// HTTP requests: those that the document allows, and those that violate it in exactly one part.

import { MAX_BODY_BYTES } from "../../../src/http/body.ts";
import { newKeyId, newSecret } from "../../../src/keys/secret.ts";
import fc from "../../support/fast-check.ts";
import { OPERATIONS, type Operation, type Parameter, type Schema } from "./document.ts";
import type { Request } from "./service.ts";
import { isValidPlain, jsonTexts, mostly, mutated, plainTexts, violation, words } from "./values.ts";

/** A request and its expected statuses. */
export interface Case {
  /** The operation, and `valid` or which part is invalid. */
  kind: string;
  /** Undefined if the path is of no operation. */
  operation: Operation["id"] | undefined;
  request: Request;
  statuses: number[];
}

/** What a part adds to a request, and the statuses that refuse it: none if it is valid. `id` is the parameter in the path. */
interface Part extends Partial<Request> {
  id?: string;
  query?: string;
  refusals: number[];
}

type Parts = Record<string, fc.Arbitrary<Part>>;

/** All requests. `secret` is a valid key, and `samples` has the values that only the service has, by parameter. */
export function cases(secret: string, samples: Record<string, string[]>): fc.Arbitrary<Case> {
  const ofOperations = OPERATIONS.map((operation) => {
    const { parameters, body } = operation;
    const parts: Parts = {
      method: methods(operation),
      path: paths(operation),
      key: keys(secret),
      ...Object.fromEntries(parameters.map((each) => [each.name, values(each, samples[each.name])])),
      ...(body && { type: mediaTypes, body: bodies(body) }),
    };
    const free = parameters.filter(({ schema }) => isFree(schema)).map(({ name }) => name);
    const violable = Object.keys(parts).filter((name) => !free.includes(name));
    const invalid = violable.map((name) => ({
      weight: name === "body" ? 4 : 1,
      arbitrary: casesOf(operation, parts, name),
    }));
    const arbitrary = mostly(2, fc.oneof(...invalid), casesOf(operation, parts));
    return { weight: body ? 3 : 1, arbitrary };
  });
  return fc.oneof(...ofOperations);
}

/** Whether every text is valid. */
function isFree(schema: Schema): boolean {
  return schema.type === "string" && Object.keys(schema).length === 1;
}

/** Requests with valid parts, except for `invalid`. */
function casesOf({ id, path, success }: Operation, parts: Parts, invalid?: string): fc.Arbitrary<Case> {
  const choices = Object.entries(parts).map(([name, part]) =>
    part.filter(({ refusals }) => refusals.length > 0 === (name === invalid)),
  );
  return fc.tuple(...choices).map((chosen) => {
    const all: Part = Object.assign({}, ...chosen);
    const target = (all.target ?? path).replace(/\{\w+\}/, () => `${all.id}`);
    const query = chosen.flatMap((part) => part.query ?? []).join("&");
    return {
      kind: `${id}, ${invalid === undefined ? "valid" : `invalid ${invalid}`}`,
      operation: invalid === "path" ? undefined : id,
      request: {
        method: `${all.method}`,
        target: query ? `${target}?${query}` : target,
        headers: Object.assign({}, ...chosen.map(({ headers }) => headers)),
        body: all.body,
      },
      statuses: invalid === undefined ? [success] : chosen.flatMap(({ refusals }) => refusals),
    };
  });
}

const METHODS = words("GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PURGE PROPFIND COPY LOCK REPORT SEARCH");

function methods({ method, methods }: Operation): fc.Arbitrary<Part> {
  const valid = method === "GET" ? ["GET", "GET", "GET", "HEAD"] : [method];
  return fc
    .constantFrom(...valid, ...METHODS.filter((each) => !methods.includes(each)))
    .map((each) => ({ method: each, refusals: valid.includes(each) ? [] : [405] }));
}

function paths({ path }: Operation): fc.Arbitrary<Part> {
  const known = OPERATIONS.map((each) => new RegExp(`^${each.path.replace(/\{\w+\}/, "[^/]*")}$`));
  // Dot segments and special characters would change the path.
  const others = mutated(fc.constant(path.replace(/\{\w+\}/, "1"))).filter(
    (text) => /^\/v1\/[\w~=,@:!$&'()*+%/-]*$/.test(text) && !known.some((each) => each.test(text)),
  );
  return fc
    .oneof(fc.constant(path), others)
    .map((target) => ({ target, refusals: target === path ? [] : [404] }));
}

/** Texts that HTTP transports unchanged. In a path, this is what is one segment, also after decoding. */
const IS_POSSIBLE = {
  header: (text: string) => /^[ -~\xa0-\xff]*$/.test(text) && text.trim() === text,
  path: (text: string) => !/[/\\]|^\.*$/.test(text),
  query: () => true,
};

function keys(secret: string): fc.Arbitrary<Part> {
  const unknown = [newSecret(newKeyId()), `${secret}x`, secret.slice(0, -1), `${secret}, ${secret}`];
  const invalid = ["", "Bearer", secret, `Basic ${secret}`, ...unknown.map((key) => `Bearer ${key}`)];
  return fc.constantFrom(`Bearer ${secret}`, `BEARER  ${secret}`, ...invalid).map((Authorization) => ({
    headers: { Authorization },
    // The limit of the address may be reached.
    refusals: invalid.includes(Authorization) ? [401, 429] : [],
  }));
}

const encodeAll = (text: string) => Buffer.from(text).toString("hex").replace(/../g, "%$&");

function values({ name, required, schema, in: where }: Parameter, samples?: string[]): fc.Arbitrary<Part> {
  const known = fc.constantFrom("1", ...(samples ?? []));
  const texts = samples ? mostly(2, known, mutated(known), plainTexts(schema)) : plainTexts(schema);
  const isValid = (text: string) => samples?.includes(text) ?? isValidPlain(schema, text);
  // An invalid id is an unknown id, or that of a new pet: the check of the operation knows them.
  const refusals = where === "path" ? [404, 200] : [400];
  const encodings = fc.constantFrom(encodeURIComponent, encodeAll);
  const present = fc.tuple(texts.filter(IS_POSSIBLE[where]), encodings).map<Part>(([text, encode]) => ({
    ...(where === "query" && { query: `${name}=${encode(text)}` }),
    ...(where === "path" && { id: encode(text) }),
    ...(where === "header" && { headers: { [name]: text } }),
    refusals: isValid(text) ? [] : refusals,
  }));
  if (where === "path") return present;
  const absent = fc.constant<Part>({ refusals: required ? [400] : [] });
  const twice = present.map(({ query }) => ({ query: `${query}&${query}`, refusals }));
  // Shrinking tries first to leave the value out: a used Idempotency-Key can't be sent again.
  const options = { withCrossShrink: true };
  return fc.oneof(options, absent, { weight: 3, arbitrary: present }, ...(where === "query" ? [twice] : []));
}

const TYPES = words(
  "application/json APPLICATION/JSON;a=b application/a+json text/plain text/json application/jsonx */*",
);

const mediaTypes = fc.constantFrom(...TYPES).map((type) => ({
  headers: { "Content-Type": type },
  refusals: /^application\/(a\+)?json(;|$)/i.test(type) ? [] : [415],
}));

/** JSON Schema has no keyword for the largest size. */
function bodies(schema: Schema): fc.Arbitrary<Part> {
  const bytes = jsonTexts(schema).map((text) => Buffer.from(text).toString("latin1"));
  const sizes = fc.constantFrom(0, 0, 1, 60_000).map((more) => MAX_BODY_BYTES + more);
  const long = fc.tuple(bytes, sizes).map(([text, size]) => text.padEnd(size));
  return mostly(8, bytes, mutated(bytes), mutated(bytes), long).map((body) => {
    if (body.length > MAX_BODY_BYTES) return { body, refusals: [413] };
    try {
      return { body, refusals: violation(schema, textOf(body)) === undefined ? [] : [400] };
    } catch {
      return { body, refusals: [400] };
    }
  });
}

/** The text of a body. Throws if it is not UTF-8. */
export function textOf(body: string): string {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(Buffer.from(body, "latin1"));
}
