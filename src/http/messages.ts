// The message of every error response, by error code: what is wrong, and what a client can do about it. The published document
// and the tests import them. Values that folders above `http/` define are parameters.

import { formatTime } from "../lib/rfc3339.ts";
import { HEADER } from "./header-names.ts";

/** When a request is admitted again; `atMs` is Unix time. */
interface Retry {
  seconds: number;
  atMs: number;
}

/** The message of a 503. */
export type OutageMessage = (outage: { retryAfterSeconds: number; requestId: string }) => string;

/** What a schema finds wrong with a value. `MESSAGES.invalid_request.field` adds the name of the field. */
export const FIELD_PROBLEMS = {
  required: "is required",
  repeated: "must be given only once",
  object: "must be a JSON object",
  string: "must be a string",
  length: (max: number) => `must be 1 to ${max} characters`,
  unicode: "must be well-formed Unicode without U+0000",
  int64: "must be a 64-bit integer (-2^63 to 2^63-1)",
  oneOf: (values: readonly string[]) => `must be one of ${values.join(", ")}`,
  pageSize: (max: number) => `must be an integer from 1 to ${max}`,
  cursor: "must come from the Link header of a previous page",
};

export const MESSAGES = {
  invalid_request: {
    plainHttp: "use HTTPS: plain HTTP exposes the API key",
    field: (name: string, problem: string) => `${name}: ${problem}`,
    json: {
      encoding: "body: must be UTF-8",
      syntax: "body: must be valid JSON",
      depth: "body: is nested too deeply",
    },
    bodyTooSlow: (maxSeconds: number) => `body: must arrive within ${maxSeconds} s`,
    bodyIncomplete: "body: is incomplete",
    idempotencyKey: (max: number) =>
      `${HEADER.idempotencyKey}: must be 1 to ${max} visible ASCII characters, bare or as a quoted string`,
  },
  unauthorized: {
    missing: "missing API key: send it as Authorization: Bearer <API key>",
    unknown: "invalid API key",
    expired: "the API key has expired",
    revoked: "the API key was revoked",
    suspended: "the API key is suspended",
    replaced: "the API key was replaced by a newer one",
  },
  forbidden: {
    readOnly:
      "the API key may only read, with GET and HEAD: to add pets, ask the operator of the service for another key",
  },
  not_found: {
    pet: "no pet has this ID",
    path: "no operation has this path",
    pathOutsideApi: "no operation has this path; API paths start with /v1",
  },
  method_not_allowed: {
    method: (method: string, allowed: string[]) =>
      `${method} is not allowed; use ${new Intl.ListFormat("en-GB", { type: "disjunction" }).format(allowed)}`,
  },
  operation_removed: {
    getPet: (removedAt: string) =>
      `this operation was removed on ${removedAt}; use GET /v1/pets, optionally with status`,
  },
  payload_too_large: {
    body: (maxBytes: number) => `body: must be at most ${maxBytes} bytes`,
  },
  unsupported_media_type: {
    contentType: "Content-Type: must be application/json",
    contentEncoding: "Content-Encoding: must be identity or absent",
  },
  idempotency_key_reused: {
    otherPet: (hours: number) =>
      `${HEADER.idempotencyKey}: was used for a different pet in the last ${hours} hours; use a new key`,
  },
  rate_limit_exceeded: {
    key: (limit: number, window: string, retry: Retry) =>
      `limit of ${limit} requests per ${window} exceeded; ${retryAt(retry)}`,
    withoutKey: (limit: number, window: string, retry: Retry) =>
      `limit of ${limit} requests per ${window} without a valid API key exceeded; ${retryAt(retry)}`,
    unknownKeys: (limit: number, window: string, retry: Retry) =>
      `too many unknown API keys from this address or network (limit: ${limit} per ${window}), so this key was not checked; ${retryAt(retry)}`,
  },
  key_banned: {
    ban: (untilMs: number, retry: Retry) =>
      `the API key is temporarily banned until ${formatTime(untilMs)} for ignoring 429 responses; ${retryAt(retry)}`,
  },
  internal_error: {
    fault: (requestId: string) => `internal error; if it persists, report request ID ${requestId}`,
  },
  service_unavailable: {
    database: outage("the database is unavailable"),
    databaseFull: outage("the database is full; nothing was written"),
    unknownOutcome: outage(
      `the database did not respond, so the pet may have been added: list the pets before you retry; next time, send an ${HEADER.idempotencyKey} with the first attempt`,
    ),
    unknownOutcomeIdempotent: outage(
      `the database did not respond, so the pet may have been added: a retry with the same ${HEADER.idempotencyKey} and body is safe`,
    ),
    limiter: outage("the counters of this API key are unavailable"),
    lookups: outage(
      "too many API keys that are new to this server arrived at once from this address or network, so this key was not checked",
    ),
  },
};

function outage(problem: string): OutageMessage {
  return ({ retryAfterSeconds, requestId }) =>
    `${problem}; retry in ${retryAfterSeconds} s; if it persists, report request ID ${requestId}`;
}

function retryAt({ seconds, atMs }: Retry): string {
  return `retry in ${seconds} s, at ${formatTime(atMs)}`;
}
