// The meaning of each error code, for the guide and the published document.

import { MAX_BODY_BYTES, MAX_BODY_MS } from "../http/body.ts";
import type { ErrorCode } from "../http/errors.ts";
import { HEADER } from "../http/header-names.ts";
import { BAN_MS } from "../limits/index.ts";
import { RETENTION_MS } from "../pets/idempotency.ts";

/** When each error occurs, and what a client can do about it (Markdown). The console of the reference page shows the remedy. */
const MEANING: Record<ErrorCode, { cause: string; remedy: string }> = {
  invalid_request: {
    cause: `The body, a field, a query parameter or a header is invalid, the body is nested too deeply or took longer than ${MAX_BODY_MS / 1_000} s to arrive, or the request used plain HTTP.`,
    remedy: "Correct what the message names, then send the request again.",
  },
  unauthorized: {
    cause:
      "The API key is missing or invalid. The message says whether it was revoked, is suspended, was replaced or has expired.",
    remedy: "Check the key, or ask the operator of the service for a new one.",
  },
  forbidden: {
    cause: "The API key may only read: it gets this for every method but `GET` and `HEAD`.",
    remedy: "Ask the operator of the service for a key that may add pets.",
  },
  not_found: {
    cause: "The pet or the path does not exist.",
    remedy: "Check the ID and the path; `GET /v1/pets` lists the IDs.",
  },
  method_not_allowed: {
    cause: "The path does not support this method.",
    remedy: "Use a method that `Allow` lists.",
  },
  operation_removed: {
    cause: "The operation has reached its sunset date.",
    remedy: "Use the replacement that `Link` names.",
  },
  payload_too_large: {
    cause: `The body is larger than ${MAX_BODY_BYTES / 1024} KiB.`,
    remedy: "Send a smaller body.",
  },
  unsupported_media_type: {
    cause: "The `Content-Type` is not `application/json` or `application/…+json`, or the body is compressed.",
    remedy: "Send uncompressed JSON with `Content-Type: application/json`.",
  },
  idempotency_key_reused: {
    cause: `The \`${HEADER.idempotencyKey}\` was used for a different pet in the last ${RETENTION_MS / 3_600_000} hours.`,
    remedy: `Send this pet with a new \`${HEADER.idempotencyKey}\`.`,
  },
  rate_limit_exceeded: {
    cause:
      "A limit of the key is exhausted, or the address has sent too many unknown keys and this key is new to the server.",
    remedy: `Wait \`${HEADER.retryAfter}\` seconds before the next request.`,
  },
  key_banned: {
    cause: `Clients kept sending requests after a 429; the ban ends after ${BAN_MS / 60_000} minutes.`,
    remedy: `Stop the clients that ignore 429 responses, and wait \`${HEADER.retryAfter}\` seconds.`,
  },
  internal_error: {
    cause: "The service failed unexpectedly.",
    remedy: "If it persists, report the request ID in the message to the operator of the service.",
  },
  service_unavailable: {
    cause:
      "A part of the service is unavailable, the database is full, or too many keys that are new to the server arrived at once from one address. If a POST may have added the pet, the message says so, and how to retry.",
    remedy: `Wait \`${HEADER.retryAfter}\` seconds, then retry as the message says.`,
  },
};

/** Cause and remedy, for the guide and the published document. */
export function meaning(code: ErrorCode): string {
  const { cause, remedy } = MEANING[code];
  return `${cause} ${remedy}`;
}

/** The remedies alone, by code. */
export const REMEDIES = Object.fromEntries(
  Object.entries(MEANING).map(([code, { remedy }]) => [code, remedy]),
) as Record<ErrorCode, string>;
