// Identifies the caller. A secret passes these steps: token, format, cache, lookup throttle, store. No request is refused here,
// because a 429 has precedence over a 401.
//
// Keys are read from the primary only: a lagging replica could accept a revoked key. The cost: the first request of a key in an
// isolate waits for the primary, however far away that is.

import type { Context, MiddlewareHandler } from "hono";
import { lifetime } from "../d1/freshness.ts";
import { DatabaseUnavailable } from "../d1/statements.ts";
import { lookupBuckets } from "../http/client-address.ts";
import { logFailure } from "../http/log.ts";
import { requestHeader } from "../http/request-header.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import { Cache } from "../lib/cache.ts";
import { DeadlineExceeded } from "../lib/deadline.ts";
import { sha256 } from "../lib/sha256.ts";
import type { RateLimitEnv } from "../rate-limit/middleware.ts";
import type { Decision } from "../rate-limit/windows.ts";
import { LookupThrottle, NoSlot } from "./lookup-throttle.ts";
import { isWellFormedSecret } from "./secret.ts";
import { type FoundKey, findKeyByHash, type Key, type KeyState, stateOf } from "./store.ts";

/** A valid key, or why there is none. `keyId` is also set for a key that is no longer valid. */
type Caller =
  | { key: Key; keyId: string; problem?: never; refusal?: never }
  | {
      key?: never;
      keyId?: string;
      problem: "missing" | "unknown" | "replaced" | Exclude<KeyState, "active">;
      /** Set if the key was not looked up, because its address or network has sent too many unknown keys. */
      refusal?: Decision;
    };

export interface KeysEnv extends RateLimitEnv {
  Variables: RateLimitEnv["Variables"] & {
    /** Set by `authenticate`; absent if that failed. */
    caller?: Caller;
    /** The valid key. Set by `requireKey`. */
    key: Key;
  };
}

const STALE_IF_ERROR_MS = 5 * 60_000;

/** How long a failed look-up is not retried: a database that hangs must not make every request wait. */
const FAILURE_MS = 5_000;

/** Keys and hashes together take about 7 MB of the 128 that an isolate has. */
const MAX_KEYS = 10_000;

export class Authenticator {
  /** Keys by the hash of a secret; null if there is none. */
  readonly #keys: Cache<FoundKey | null, Context<KeysEnv>>;
  readonly #throttle = new LookupThrottle();
  /** The hashes of secrets that exist: hashing takes a quarter of the CPU time of a hot request. */
  readonly #hashes = new BoundedMap<string, string>(MAX_KEYS);

  constructor() {
    const found = lifetime({ revalidation: true, staleIfErrorMs: STALE_IF_ERROR_MS });
    // An unknown key is not revalidated, because it may belong to a flood.
    const unknown = lifetime({});
    this.#keys = new Cache({
      load: (hash, c, known) => {
        // A key that was found before is not throttled, whatever else its address has sent.
        const buckets = known ? [] : lookupBuckets(c.req);
        return this.#throttle.run(buckets, c.get("nowMs"), () => findKeyByHash(c.env.DB, hash));
      },
      lifetimeOf: (key) => (key === null ? unknown : found),
      maxSize: MAX_KEYS,
      // Without a stale key, only a database that hangs is given a pause: other failures may be over.
      failureMs: (error, isStale) =>
        error instanceof DatabaseUnavailable && (isStale || error.cause instanceof DeadlineExceeded)
          ? FAILURE_MS
          : 0,
      onStale(c, error) {
        if (!(error instanceof DatabaseUnavailable)) throw error;
        logFailure(c, "database_unavailable", error.cause);
      },
    });
  }

  /** Sets `caller`. Throws DatabaseUnavailable if a key can't be looked up and the cache can't serve it. */
  readonly authenticate: MiddlewareHandler<KeysEnv> = async (c, next) => {
    const found = this.#identify(c);
    const caller = found instanceof Promise ? await found : found;
    c.set("caller", caller);
    const log = c.get("log");
    log.keyId = caller.keyId;
    log.plan = caller.key?.plan;
    return next();
  };

  /** Identifies the caller synchronously if no look-up is needed. */
  #identify(c: Context<KeysEnv>): Caller | Promise<Caller> {
    const secret = bearerToken(requestHeader(c.req.raw.headers, "Authorization"));
    if (secret === undefined) return { problem: "missing" };
    const knownHash = this.#hashes.get(secret);
    if (knownHash === undefined && !isWellFormedSecret(secret)) return { problem: "unknown" };
    const hash = knownHash ?? sha256(secret);
    const key = this.#keys.get(hash, c);
    if (key instanceof Promise) return this.#awaitLookup(key, c);
    if (key !== null && knownHash === undefined) this.#hashes.set(secret, hash);
    return callerOf(key, c.get("nowMs"));
  }

  async #awaitLookup(lookup: Promise<FoundKey | null>, c: Context<KeysEnv>): Promise<Caller> {
    try {
      return callerOf(await lookup, c.get("nowMs"));
    } catch (error) {
      const refusal = refusalOf(error, lookupBuckets(c.req), c.get("nowMs"));
      // The look-up was shared with another request, which had no slot; this one may have one.
      return refusal === undefined ? this.#identify(c) : { problem: "unknown", refusal };
    }
  }
}

/** The token of a bearer credential (RFC 6750, section 2.1; the scheme is case-insensitive, RFC 9110, section 11.1). */
function bearerToken(authorization: string | undefined): string | undefined {
  return authorization?.match(/^bearer +(.+)/i)?.[1];
}

function callerOf(key: FoundKey | null, nowMs: number): Caller {
  if (key === null) return { problem: "unknown" };
  const state = stateOf(key, nowMs);
  const isReplaced = key.secretGoodUntilMs !== null && key.secretGoodUntilMs <= nowMs;
  if (state === "active" && !isReplaced) return { key, keyId: key.id };
  return { keyId: key.id, problem: state === "active" ? "replaced" : state };
}

/** The refusal of a request that had no slot; undefined if only another request had none. Throws any other error. */
function refusalOf(error: unknown, buckets: readonly string[], nowMs: number): Decision | undefined {
  if (!(error instanceof NoSlot)) throw error;
  if (!error.appliesTo(buckets, nowMs)) return undefined;
  if (error.refusal === undefined) throw new DatabaseUnavailable(error, false);
  return error.refusal;
}
