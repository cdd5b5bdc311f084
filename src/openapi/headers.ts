// The response headers of the published document. The examples are from the first request of a Free key.

import { HEADER } from "../http/header-names.ts";
import { methodsOf } from "../http/operations.ts";
import { ACCEPTABLE_ID, ID_LENGTH } from "../http/request-context.ts";
import { PREFERENCE } from "../http/server-timing.ts";
import { WINDOWS } from "../keys/plans.ts";
import { DECIDED_BY, headersOf } from "../limits/index.ts";
import { DEPRECATION, deprecationLink, REMOVED_AT, SUNSET } from "../pets/deprecation.ts";
import { EXAMPLE_OUTLOOK, isoDate } from "./examples.ts";
import type { JsonSchema } from "./schemas.ts";

interface Header {
  description: string;
  /** False if responses may lack it; the description says when. */
  required?: false;
  schema: JsonSchema;
  example: string | number;
}

const integer = (minimum: number): JsonSchema => ({ type: "integer", minimum });

const EXAMPLE_HEADERS = headersOf(EXAMPLE_OUTLOOK);
const exampleOf = (name: string) => Number(EXAMPLE_HEADERS[name]);

/** The windows of a key, or the minute of an address. */
function windowsPattern(parameters: (seconds: number) => string): string {
  const all = Object.entries(WINDOWS).map(([name, seconds]) => `"${name}";${parameters(seconds)}`);
  return `^("minute";${parameters(60)}|${all.join(", ")})$`;
}

export const HEADERS = {
  [HEADER.rateLimitLimit]: {
    description:
      "Limit of the tightest window: the one with the fewest requests remaining, the longest if tied; during a ban the shortest, unless another one is used up until after it. Without a valid key, the limit per minute of the client's address.",
    schema: integer(1),
    example: exampleOf(HEADER.rateLimitLimit),
  },
  [HEADER.rateLimitRemaining]: {
    description: "Requests remaining in that window; 0 during a ban.",
    schema: integer(0),
    example: exampleOf(HEADER.rateLimitRemaining),
  },
  [HEADER.rateLimitReset]: {
    description: "When that window has requests again (Unix time in seconds).",
    schema: integer(0),
    example: exampleOf(HEADER.rateLimitReset),
  },
  [HEADER.rateLimit]: {
    description:
      "All windows of the key, the shortest first, or the minute of the client's address without a valid key: requests remaining (`r`) and seconds until reset (`t`). Structured field of draft-ietf-httpapi-ratelimit-headers.",
    schema: { type: "string", pattern: windowsPattern(() => "r=\\d+;t=\\d+") },
    example: EXAMPLE_HEADERS[HEADER.rateLimit] ?? "",
  },
  [HEADER.rateLimitPolicy]: {
    description:
      "The same windows: limit (`q`) and length in seconds (`w`). Structured field of the same draft.",
    schema: { type: "string", pattern: windowsPattern((seconds) => `q=\\d+;w=${seconds}`) },
    example: EXAMPLE_HEADERS[HEADER.rateLimitPolicy] ?? "",
  },
  [HEADER.requestId]: {
    description: `ID of the request: the client's own if it sent ${ID_LENGTH.min} to ${ID_LENGTH.max} of \`A-Z a-z 0-9 _ -\`, otherwise a generated one. Quote it when you report a problem.`,
    schema: { type: "string", pattern: ACCEPTABLE_ID.source },
    example: "15b96366-c437-4fee-bc85-0daf84be74b4",
  },
  [HEADER.serverTiming]: {
    required: false,
    description: `Present if the request has \`${HEADER.prefer}: ${PREFERENCE}\`: how the rate limit decided the request, the network hops that it waited for, and the time in the server (W3C Server Timing). Servers on the way may add entries.`,
    schema: {
      type: "string",
      pattern: `(limiter;desc=(${DECIDED_BY.join("|")});dur=\\d+, )?(object;start=\\d+;dur=\\d+, (record;dur=\\d+, )?|(keys|pets);start=\\d+;dur=\\d+, )*total;dur=\\d+`,
    },
    example: "limiter;desc=lease;dur=0, total;dur=0",
  },
  "Access-Control-Allow-Origin": {
    description: "Pages of every origin can call the service.",
    schema: { type: "string", const: "*" },
    example: "*",
  },
  "Access-Control-Expose-Headers": {
    description: "Pages of other origins can read all response headers.",
    schema: { type: "string", const: "*" },
    example: "*",
  },
  Link: {
    required: false,
    description: 'URL of the next page, with `rel="next"` (RFC 8288). Absent on the last page.',
    schema: { type: "string", pattern: '^<[^<>]+>; rel="next"$' },
    example: '<https://petstore.example/v1/pets?limit=2&cursor=AQAAAAAAAAADaHtRVw>; rel="next"',
  },
  Location: {
    description: `Path of the new pet, until ${isoDate(REMOVED_AT)}.`,
    schema: { type: "string", pattern: "^/v1/pets/-?\\d+$" },
    example: "/v1/pets/4",
  },
  [HEADER.idempotentReplayed]: {
    required: false,
    description: `Present if an earlier request with this \`${HEADER.idempotencyKey}\` has added the pet: this response repeats that one.`,
    schema: { type: "string", const: "true" },
    example: "true",
  },
  [HEADER.retryAfter]: {
    description:
      "Seconds to wait. The next request is then admitted, unless other clients have used the key or the address meanwhile.",
    schema: integer(1),
    example: 40,
  },
  OutageRetryAfter: {
    description: "Seconds to wait before a retry. The outage may last longer.",
    schema: integer(1),
    example: 5,
  },
  "Cache-Control": {
    description: "The response is not to be cached.",
    schema: { type: "string", const: "no-store" },
    example: "no-store",
  },
  "WWW-Authenticate": {
    description: "Authentication scheme (RFC 6750); with `error` if a key was sent.",
    schema: {
      type: "string",
      enum: ['Bearer realm="petstore"', 'Bearer realm="petstore", error="invalid_token"'],
    },
    example: 'Bearer realm="petstore"',
  },
  "Accept-Encoding": {
    required: false,
    description: "Supported content codings. Present only if the `Content-Encoding` was wrong.",
    schema: { type: "string", const: "identity" },
    example: "identity",
  },
  [HEADER.deprecation]: {
    description: "Date of the deprecation (RFC 9745).",
    schema: { type: "string", const: DEPRECATION },
    example: DEPRECATION,
  },
  [HEADER.sunset]: {
    description: `Date of the removal: ${isoDate(REMOVED_AT)} (RFC 8594).`,
    schema: { type: "string", const: SUNSET },
    example: SUNSET,
  },
  DeprecationLink: {
    description: "Replacement of the operation, and documentation of the deprecation (RFC 8288).",
    schema: {
      type: "string",
      pattern: '^<[^<>]+/v1/pets>; rel="successor-version", <[^<>]+/>; rel="deprecation"; type="text/html"$',
    },
    example: deprecationLink("https://petstore.example/v1/pets/1"),
  },
} as const satisfies Record<string, Header>;

export type HeaderName = keyof typeof HEADERS;

/** The real names of headers that have a second meaning, and therefore another name above. */
export const REAL_NAMES: Partial<Record<HeaderName, string>> = {
  DeprecationLink: "Link",
  OutageRetryAfter: HEADER.retryAfter,
};

/** For the 405 only, which belongs to no operation: linters reject shared headers that no operation uses. */
export const ALLOW = {
  required: true,
  description: "Methods that the path supports (RFC 9110).",
  schema: { type: "string", pattern: "^[A-Z]+(, [A-Z]+)*$" },
  example: methodsOf("/pets").join(", "),
};

/** On every response under /v1. */
export const ALWAYS = [
  HEADER.rateLimitLimit,
  HEADER.rateLimitRemaining,
  HEADER.rateLimitReset,
  HEADER.rateLimit,
  HEADER.rateLimitPolicy,
  HEADER.requestId,
  "Access-Control-Allow-Origin",
  "Access-Control-Expose-Headers",
] as const satisfies HeaderName[];

/** Documented for every response under /v1: those, and what any request can ask for. */
export const COMMON = [...ALWAYS, HEADER.serverTiming] as const satisfies HeaderName[];
