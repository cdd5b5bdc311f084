// The header Idempotency-Key (draft-ietf-httpapi-idempotency-key-header): a name that a client invents for one creation,
// so that it may send it again when it got no answer.

import { ApiError } from "../errors.ts";

const BARE = /^[\x21-\x7e]{1,255}$/;

/** A string of a structured field (RFC 9651, section 3.3.3), of which `\"` and `\\` are the only escapes. */
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"$/;

/**
 * The idempotency key that a header names, quoted or bare: 1 to 255 visible ASCII characters. Undefined without a
 * header. Throws `invalid_request`.
 */
export function parseIdempotencyKey(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const key = header.startsWith('"') ? header.match(QUOTED)?.[1]?.replace(/\\(.)/g, "$1") : header;
  if (key !== undefined && BARE.test(key)) return key;
  throw new ApiError("invalid_request", "Idempotency-Key: must be 1 to 255 visible ASCII characters");
}
