// What the published document says about response headers: each with its type, its meaning and an example, which is what
// a Free key gets that sends its first request on 20 November 2026, 20 seconds after 12:34 UTC.

import { EXPOSED_HEADERS } from "../http/cors.ts";
import { DEPRECATION, deprecationLink, REMOVED_AT, SUNSET } from "../pets/deprecation.ts";
import type { JsonSchema } from "./schemas.ts";

interface Header {
  description: string;
  /** Whether the responses that name it always have it; otherwise the description says when. */
  required?: false;
  schema: JsonSchema;
  example: string | number;
}

const integer = (minimum: number): JsonSchema => ({ type: "integer", minimum });

export const HEADERS = {
  "X-RateLimit-Limit": {
    description:
      "Requests that a window admits: of the key's two, the one with fewer requests left, and the day if both have as many. Without a valid key it is the one window of the client's address.",
    schema: integer(1),
    example: 60,
  },
  "X-RateLimit-Remaining": {
    description: "Requests that are left in that window; 0 during a ban.",
    schema: integer(0),
    example: 59,
  },
  "X-RateLimit-Reset": {
    description: "When that window has requests again, in Unix time (seconds).",
    schema: integer(0),
    example: 1795178100,
  },
  RateLimit: {
    description:
      "The windows of the key, or the one of an address without a valid key: requests left (`r`), and seconds until there are more (`t`). A structured field of draft-ietf-httpapi-ratelimit-headers.",
    schema: { type: "string", pattern: '^"minute";r=\\d+;t=\\d+(, "day";r=\\d+;t=\\d+)?$' },
    example: '"minute";r=59;t=40, "day";r=999;t=41140',
  },
  "RateLimit-Policy": {
    description:
      "The same windows: requests that each admits (`q`), and its length in seconds (`w`). A structured field of the same draft.",
    schema: { type: "string", pattern: '^"minute";q=\\d+;w=60(, "day";q=\\d+;w=86400)?$' },
    example: '"minute";q=60;w=60, "day";q=1000;w=86400',
  },
  "X-Request-Id": {
    description:
      "Names the request. It is the client's own if that sent 8 to 64 of `A-Z a-z 0-9 _ -`, else a new one; report it when something fails.",
    schema: { type: "string", pattern: "^[A-Za-z0-9_-]{8,64}$" },
    example: "15b96366-c437-4fee-bc85-0daf84be74b4",
  },
  "Access-Control-Allow-Origin": {
    description: "Pages of every origin may call the service.",
    schema: { type: "string", const: "*" },
    example: "*",
  },
  "Access-Control-Expose-Headers": {
    description: "The headers that such a page may read.",
    schema: { type: "string", const: EXPOSED_HEADERS },
    example: EXPOSED_HEADERS,
  },
  Link: {
    required: false,
    description:
      'Where the next page is, with `rel="next"`, as long as there is one (RFC 8288). Follow it as it is.',
    schema: { type: "string", pattern: '^<[^<>]+>; rel="next"$' },
    example: '<https://petstore.example/v1/pets?limit=2&cursor=AQAAAAAAAAADaHtRVw>; rel="next"',
  },
  Location: {
    description: "Where the new pet is.",
    schema: { type: "string", pattern: "^/v1/pets/-?\\d+$" },
    example: "/v1/pets/4",
  },
  "Retry-After": {
    description:
      "Seconds to wait. A request that is sent then is admitted, unless others have used the key, or the address, meanwhile.",
    schema: integer(1),
    example: 40,
  },
  OutageRetryAfter: {
    description: "Seconds to wait before a try makes sense. Nobody knows when the outage ends.",
    schema: integer(1),
    example: 5,
  },
  "Cache-Control": {
    description: "The answer is about this moment only.",
    schema: { type: "string", const: "no-store" },
    example: "no-store",
  },
  "WWW-Authenticate": {
    description: "How to authenticate (RFC 6750); with `error` if a key was sent.",
    schema: {
      type: "string",
      enum: ['Bearer realm="petstore"', 'Bearer realm="petstore", error="invalid_token"'],
    },
    example: 'Bearer realm="petstore"',
  },
  "Accept-Encoding": {
    required: false,
    description: "How a body may be encoded: not at all. It is there if that was the problem.",
    schema: { type: "string", const: "identity" },
    example: "identity",
  },
  Deprecation: {
    description: "Since when the operation is deprecated (RFC 9745).",
    schema: { type: "string", const: DEPRECATION },
    example: DEPRECATION,
  },
  Sunset: {
    description: `When the operation is removed: ${REMOVED_AT.toISOString().slice(0, 10)} (RFC 8594).`,
    schema: { type: "string", const: SUNSET },
    example: SUNSET,
  },
  DeprecationLink: {
    description: "What to use instead, and where to read about it (RFC 8288).",
    schema: {
      type: "string",
      pattern: '^<[^<>]+/v1/pets>; rel="successor-version", <[^<>]+/>; rel="deprecation"; type="text/html"$',
    },
    example: deprecationLink("https://petstore.example/v1/pets/1"),
  },
} as const satisfies Record<string, Header>;

export type HeaderName = keyof typeof HEADERS;

/** The names of headers that stand above under another one, because they mean something else elsewhere. */
export const REAL_NAMES: Partial<Record<HeaderName, string>> = {
  DeprecationLink: "Link",
  OutageRetryAfter: "Retry-After",
};

/** Of the 405 alone, which belongs to no operation: linters complain of headers that no operation names. */
export const ALLOW = {
  required: true,
  description: "The methods that the path has (RFC 9110).",
  schema: { type: "string", pattern: "^[A-Z]+(, [A-Z]+)*$" },
  example: "GET, HEAD, POST",
};

/** On every response under /v1. */
export const ALWAYS = [
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "RateLimit",
  "RateLimit-Policy",
  "X-Request-Id",
  "Access-Control-Allow-Origin",
  "Access-Control-Expose-Headers",
] as const satisfies HeaderName[];
