// The header Idempotency-Key (draft-ietf-httpapi-idempotency-key-header): a name that a client invents for one creation,
// so that it may send it again when it got no answer.

import { ApiError } from "../http/errors.ts";
import { MESSAGES } from "../http/messages.ts";

/** Bare, or a string of a structured field (RFC 9651, section 3.3.3), of which `\"` and `\\` are the only escapes. */
export const IDEMPOTENCY_KEY = /^(?:([!#-~][!-~]{0,254})|"((?:[!#-[\]-~]|\\["\\]){1,255})")$/;

/**
 * The idempotency key that a header names, quoted or bare: 1 to 255 visible ASCII characters. Undefined without a
 * header. Throws `invalid_request`.
 */
export function parseIdempotencyKey(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const [, bare, quoted] = header.match(IDEMPOTENCY_KEY) ?? [];
  const key = bare ?? quoted?.replace(/\\(.)/g, "$1");
  if (key !== undefined) return key;
  throw new ApiError("invalid_request", MESSAGES.invalid_request.idempotencyKey);
}
