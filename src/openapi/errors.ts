// What the guide and the published document say about each error code.

import { MAX_BODY_BYTES, MAX_BODY_MS } from "../http/body.ts";
import type { ErrorCode } from "../http/errors.ts";
import { MAX_LEVELS, MAX_VALUES } from "../lib/json-scanner.ts";
import { REMEMBERED_MS } from "../pets/idempotency.ts";
import { BAN_MS } from "../rate-limit/object/quota.ts";

/** When each code is given, and what a client can do about it. */
export const MEANING: Record<ErrorCode, string> = {
  invalid_request: `The body, a field of it, a query parameter or a header is wrong, the body took longer than ${MAX_BODY_MS / 1_000} s to arrive, or the request came over plain HTTP. A body has at most ${MAX_VALUES.toLocaleString("en")} values (objects, arrays, strings, numbers, \`true\`, \`false\`, \`null\`; names do not count) and ${MAX_LEVELS} levels. The message says what is wrong, and why.`,
  unauthorized:
    "There is no API key, or it is not valid. The message says if the key was revoked, was replaced or has expired.",
  not_found: "There is no such pet, or no such path.",
  method_not_allowed: "The path has other methods: see `Allow`.",
  operation_removed: "The operation has reached its sunset: `Link` says what to use instead.",
  payload_too_large: `The body has more than ${MAX_BODY_BYTES / 1024} KiB.`,
  unsupported_media_type:
    "The body is not announced as `application/json` or `application/…+json`, or it is compressed.",
  idempotency_key_reused: `The \`Idempotency-Key\` was used for another pet in the last ${REMEMBERED_MS / 3_600_000} hours: take a new one.`,
  rate_limit_exceeded: "The minute or the day is used up: wait as long as `Retry-After` says.",
  key_banned: `Clients kept sending requests after a 429: wait as long as \`Retry-After\` says. The ban ends by itself after ${BAN_MS / 60_000} minutes.`,
  internal_error: "Internal error: report the request ID that the message names.",
  service_unavailable:
    "A part of the service can't be reached, or the database is full: wait as long as `Retry-After` says. After a creation the message says whether the pet may have been added, and how to retry.",
};
