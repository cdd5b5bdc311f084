// An example of each message of an error. The guide lists all of them, the responses of the document show some. A message that has no
// example does not compile.

import { MAX_BODY_BYTES, MAX_BODY_MS } from "../http/body.ts";
import { type ErrorCode, FULL_RETRY_AFTER_SECONDS, RETRY_AFTER_SECONDS } from "../http/errors.ts";
import { HEADER } from "../http/header-names.ts";
import { FIELD_PROBLEMS, MESSAGES } from "../http/messages.ts";
import { methodsOf } from "../http/operations.ts";
import { PLAN_LIMITS } from "../keys/plans.ts";
import { banEndMs, REQUESTS_PER_MINUTE } from "../limits/index.ts";
import { REMOVED_AT, SUNSET } from "../pets/deprecation.ts";
import { MAX_KEY_LENGTH, RETENTION_MS } from "../pets/idempotency.ts";
import { MAX_NAME_CODE_POINTS, MAX_PAGE_SIZE, PET_STATUSES } from "../pets/schema.ts";
import { EXAMPLE_MS, isoDate } from "./examples.ts";
import { HEADERS } from "./headers.ts";

/** A message, and a request that gets it. */
export type ErrorMessage = { request: string; message: string };

type MessagesOf<Value> = Value extends string | ((...values: never[]) => string)
  ? ErrorMessage
  : { [Name in keyof Value]: MessagesOf<Value[Name]> };

type AllMessages = {
  [Code in ErrorCode]: {
    [Name in keyof (typeof MESSAGES)[Code]]: Name extends "field"
      ? MessagesOf<typeof FIELD_PROBLEMS>
      : MessagesOf<(typeof MESSAGES)[Code][Name]>;
  };
};

const example = (request: string, message: string): ErrorMessage => ({ request, message });

const NEXT_MINUTE = { seconds: 40, atMs: EXAMPLE_MS + 40_000 };
const BANNED_MS = EXAMPLE_MS + 500;
const BAN_END_MS = banEndMs(BANNED_MS);
const BAN_RETRY = { seconds: Math.ceil((BAN_END_MS - BANNED_MS) / 1000), atMs: BAN_END_MS };

const { example: requestId } = HEADERS[HEADER.requestId];
const OUTAGE = { retryAfterSeconds: RETRY_AFTER_SECONDS, requestId };

const invalid = MESSAGES.invalid_request;
const outages = MESSAGES.service_unavailable;
const limited = MESSAGES.rate_limit_exceeded;

export const ERROR_MESSAGES = {
  invalid_request: {
    plainHttp: example("Any request over plain HTTP, except to a loopback host.", invalid.plainHttp),
    field: {
      required: example("No categoryId.", invalid.field("categoryId", FIELD_PROBLEMS.required)),
      repeated: example("limit=1&limit=2.", invalid.field("limit", FIELD_PROBLEMS.repeated)),
      object: example("A body that is an array.", invalid.field("body", FIELD_PROBLEMS.object)),
      string: example("A name that is a number.", invalid.field("name", FIELD_PROBLEMS.string)),
      length: example("An empty name.", invalid.field("name", FIELD_PROBLEMS.length(MAX_NAME_CODE_POINTS))),
      unicode: example("A name with U+0000.", invalid.field("name", FIELD_PROBLEMS.unicode)),
      int64: example("A categoryId of 1.5.", invalid.field("categoryId", FIELD_PROBLEMS.int64)),
      oneOf: example("status=lost.", invalid.field("status", FIELD_PROBLEMS.oneOf(PET_STATUSES))),
      pageSize: example("limit=0.", invalid.field("limit", FIELD_PROBLEMS.pageSize(MAX_PAGE_SIZE))),
      cursor: example("An invalid cursor.", invalid.field("cursor", FIELD_PROBLEMS.cursor)),
    },
    json: {
      encoding: example("A body that is not UTF-8.", invalid.json.encoding),
      syntax: example("A body that is not JSON.", invalid.json.syntax),
      depth: example("A body of thousands of nested arrays.", invalid.json.depth),
    },
    bodyTooSlow: example("A body that stops before its end.", invalid.bodyTooSlow(MAX_BODY_MS / 1_000)),
    bodyIncomplete: example("A body whose connection breaks.", invalid.bodyIncomplete),
    idempotencyKey: example(
      `An ${HEADER.idempotencyKey} with a space in it.`,
      invalid.idempotencyKey(MAX_KEY_LENGTH),
    ),
  },
  unauthorized: {
    missing: example("No key.", MESSAGES.unauthorized.missing),
    unknown: example("An unknown key.", MESSAGES.unauthorized.unknown),
    expired: example("A key that has expired.", MESSAGES.unauthorized.expired),
    revoked: example("A key that was revoked.", MESSAGES.unauthorized.revoked),
    suspended: example("A key that is suspended.", MESSAGES.unauthorized.suspended),
    replaced: example("A key that was replaced.", MESSAGES.unauthorized.replaced),
  },
  forbidden: {
    readOnly: example("A creation with a read-only key.", MESSAGES.forbidden.readOnly),
  },
  not_found: {
    pet: example("An unknown ID.", MESSAGES.not_found.pet),
    path: example("An unknown path.", MESSAGES.not_found.path),
    pathOutsideApi: example("An unknown path outside of /v1.", MESSAGES.not_found.pathOutsideApi),
  },
  method_not_allowed: {
    method: example("DELETE /v1/pets.", MESSAGES.method_not_allowed.method("DELETE", methodsOf("/pets"))),
  },
  operation_removed: {
    getPet: example(`Any ID, from ${isoDate(REMOVED_AT)} on.`, MESSAGES.operation_removed.getPet(SUNSET)),
  },
  payload_too_large: {
    body: example("A larger body.", MESSAGES.payload_too_large.body(MAX_BODY_BYTES)),
  },
  unsupported_media_type: {
    contentType: example("A body of text/plain.", MESSAGES.unsupported_media_type.contentType),
    contentEncoding: example("A compressed body.", MESSAGES.unsupported_media_type.contentEncoding),
  },
  idempotency_key_reused: {
    otherPet: example(
      `An earlier ${HEADER.idempotencyKey} with a different pet.`,
      MESSAGES.idempotency_key_reused.otherPet(RETENTION_MS / 3_600_000),
    ),
  },
  rate_limit_exceeded: {
    key: example(
      "One request more than the limit per minute, with a Free key.",
      limited.key(PLAN_LIMITS.free.minute, "minute", NEXT_MINUTE),
    ),
    withoutKey: example(
      "One request more than the limit per minute, from one address without a valid key.",
      limited.withoutKey(REQUESTS_PER_MINUTE, "minute", NEXT_MINUTE),
    ),
    unknownKeys: example(
      `A key that is new to the server, from an address that has sent ${REQUESTS_PER_MINUTE} unknown keys in this minute.`,
      limited.unknownKeys(REQUESTS_PER_MINUTE, "minute", NEXT_MINUTE),
    ),
  },
  key_banned: {
    ban: example(
      "A Free key whose clients kept sending requests after a 429.",
      MESSAGES.key_banned.ban(BAN_END_MS, BAN_RETRY),
    ),
  },
  internal_error: {
    fault: example("Any request, after an unexpected failure.", MESSAGES.internal_error.fault(requestId)),
  },
  service_unavailable: {
    database: example(
      "Any request, while neither the object of the key nor the database can tell whether the key is valid.",
      outages.database(OUTAGE),
    ),
    databaseFull: example(
      "A creation, while the database is full.",
      outages.databaseFull({ ...OUTAGE, retryAfterSeconds: FULL_RETRY_AFTER_SECONDS }),
    ),
    unknownOutcome: example("A creation during which the database fails.", outages.unknownOutcome(OUTAGE)),
    unknownOutcomeIdempotent: example(
      `The same, with an ${HEADER.idempotencyKey}.`,
      outages.unknownOutcomeIdempotent(OUTAGE),
    ),
    limiter: example("GET /v1/usage, while the object of the key fails.", outages.limiter(OUTAGE)),
    lookups: example(
      "A key that is new to the server, at once with hundreds of others from one address.",
      outages.lookups(OUTAGE),
    ),
  },
} satisfies AllMessages;

/** Every message with its code. */
export function allMessages(): [ErrorCode, ErrorMessage][] {
  const isMessage = (each: object): each is ErrorMessage =>
    "message" in each && typeof each.message === "string";
  const within = (each: object): ErrorMessage[] =>
    isMessage(each) ? [each] : Object.values(each).flatMap((part: object) => within(part));
  return (Object.keys(ERROR_MESSAGES) as ErrorCode[]).flatMap((code) =>
    within(ERROR_MESSAGES[code]).map((each) => [code, each] as [ErrorCode, ErrorMessage]),
  );
}
