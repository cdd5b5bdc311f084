// The meaning of each error code, for the guide and the published document.

import { MAX_BODY_BYTES, MAX_BODY_MS } from "../http/body.ts";
import type { ErrorCode } from "../http/errors.ts";
import { MAX_LEVELS, MAX_VALUES } from "../lib/json-scanner.ts";
import { RETENTION_MS } from "../pets/idempotency.ts";
import { BAN_MS } from "../rate-limit/object/quota.ts";

/** When each error occurs, and what a client can do about it. */
export const MEANING: Record<ErrorCode, string> = {
  invalid_request: `The body, a field, a query parameter or a header is invalid, the body took longer than ${MAX_BODY_MS / 1_000} s to arrive, or the request used plain HTTP. A body may have at most ${MAX_VALUES.toLocaleString("en")} values (objects, arrays, strings, numbers, \`true\`, \`false\`, \`null\`; names do not count) and ${MAX_LEVELS} levels of nesting. The message names the problem.`,
  unauthorized:
    "The API key is missing or invalid. The message says whether it was revoked, was replaced or has expired.",
  not_found: "The pet or the path does not exist.",
  method_not_allowed: "The path does not support this method. `Allow` lists the methods that it supports.",
  operation_removed: "The operation has reached its sunset date. `Link` has the replacement.",
  payload_too_large: `The body is larger than ${MAX_BODY_BYTES / 1024} KiB.`,
  unsupported_media_type:
    "The `Content-Type` is not `application/json` or `application/…+json`, or the body is compressed.",
  idempotency_key_reused: `The \`Idempotency-Key\` was used for a different pet in the last ${RETENTION_MS / 3_600_000} hours. Use a new one.`,
  rate_limit_exceeded: "The limit per minute or per day is exhausted. Wait `Retry-After` seconds.",
  key_banned: `Clients kept sending requests after a 429. Wait \`Retry-After\` seconds; the ban ends after ${BAN_MS / 60_000} minutes.`,
  internal_error: "Internal error. If it persists, report the request ID in the message.",
  service_unavailable:
    "A part of the service is unavailable, or the database is full. Wait `Retry-After` seconds. If a POST may have added the pet, the message says so, and how to retry.",
};
