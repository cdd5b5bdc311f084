// Finds out who calls: reads the key from the request and looks it up, in the isolate's memory first. It
// refuses nobody. What a caller without a valid key gets is decided later: a 429 comes before a 401.

import type { MiddlewareHandler } from "hono";
import { BoundedMap } from "../bounded-map.ts";
import type { AppEnv } from "../env.ts";
import { AddressMeter, clientAddress } from "../rate-limit/address-meter.ts";
import { hashSecret, isWellFormedSecret } from "./secret.ts";
import { findKeyByHash, type Key } from "./store.ts";

/** How long a look-up is believed: a key that is revoked or changed is so everywhere after this time. */
const LOOKUP_TTL_MS = 30_000;

/** Together about 5 MB of the 128 that an isolate has. */
const MAX_LOOKUPS = 10_000;

interface Lookup {
  key: Key | undefined;
  madeAtMs: number;
}

/** What was found lately, and what was not, by the hash of the secret. */
const lookups = new BoundedMap<string, Lookup>(MAX_LOOKUPS);

/** Look-ups that found nothing, by address: whoever tries that many keys is guessing. Those in flight come on top. */
const failedLookups = new AddressMeter();

/** Sets `caller`. */
export function identifyCaller(): MiddlewareHandler<AppEnv> {
  return async function identifyCaller(c, next) {
    const secret = bearerToken(c.req.header("Authorization"));
    const key =
      secret === undefined ? undefined : await findKey(c.env.DB, secret, clientAddress(c.req), c.var.nowMs);
    c.set("caller", { ...(key && { key }), sentKey: secret !== undefined });
    await next();
  };
}

/** The token of a bearer credential (RFC 6750, section 2.1; the scheme is case-insensitive, RFC 9110, 11.1). */
function bearerToken(authorization: string | undefined): string | undefined {
  return authorization?.trim().match(/^bearer +(.+)$/i)?.[1];
}

/** The key with this secret, unless it has expired. A secret without the form of one costs no I/O. */
async function findKey(
  database: D1Database,
  secret: string,
  address: string,
  nowMs: number,
): Promise<Key | undefined> {
  if (!isWellFormedSecret(secret)) return undefined;
  const hash = await hashSecret(secret);

  const known = lookups.get(hash);
  if (known !== undefined && isFresh(known, nowMs)) return unlessExpired(known.key, nowMs);

  // A key that was good when it was last looked up is no guess, whoever else calls from its address.
  const mayBeGuess = known?.key === undefined;
  if (mayBeGuess && !failedLookups.peek(address, nowMs).admitted) return undefined;
  const key = await findKeyByHash(database, hash);

  // One dead key that is sent many times at once is one guess: the first of its look-ups to end counts.
  const isFirst = lookups.get(hash) === known;
  if (key === undefined && isFirst) failedLookups.take(address, nowMs);
  lookups.set(hash, { key, madeAtMs: nowMs });
  return unlessExpired(key, nowMs);
}

/** A look-up from the future is not believed either: the clock has stepped back, nobody knows how old it is. */
function isFresh({ madeAtMs }: Lookup, nowMs: number): boolean {
  return madeAtMs <= nowMs && nowMs < madeAtMs + LOOKUP_TTL_MS;
}

function unlessExpired(key: Key | undefined, nowMs: number): Key | undefined {
  const expired = key?.expiresAtMs != null && key.expiresAtMs <= nowMs;
  return expired ? undefined : key;
}
