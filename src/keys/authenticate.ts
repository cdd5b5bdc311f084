// Finds out who calls. The path of a secret: token, form, cache, throttle, store, caller. It refuses no request: what a client without
// a valid key gets is decided later, because a 429 comes before a 401.
//
// Keys are read at the primary only. A replica may lag by any time, and would revive a key that was revoked. The trade-off: the first
// request of a key in an isolate waits for the primary, however far away that is.

import type { Context, MiddlewareHandler } from "hono";
import { FRESH_MS, REVALIDATE_MS } from "../d1/freshness.ts";
import { DatabaseUnavailable } from "../d1/statements.ts";
import { lookupBuckets } from "../http/client-address.ts";
import { logFailure } from "../http/log.ts";
import { requestHeader } from "../http/request-header.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import { Cache, type Lifetime } from "../lib/cache.ts";
import { DeadlineExceeded } from "../lib/deadline.ts";
import type { Optimizations } from "../lib/optimizations.ts";
import { sha256 } from "../lib/sha256.ts";
import type { RateLimitEnv } from "../rate-limit/middleware.ts";
import type { Decision } from "../rate-limit/windows.ts";
import { LookupThrottle, NoSlot } from "./lookup-throttle.ts";
import { isWellFormedSecret } from "./secret.ts";
import { type FoundKey, findKeyByHash, type Key, type KeyState, stateOf } from "./store.ts";

/** A valid key, or what is wrong with what was sent. `keyId` also names a key that is no longer valid. */
export type Caller =
  | { key: Key; keyId: string; problem?: never; refusal?: never }
  | {
      key?: never;
      keyId?: string;
      problem: "missing" | "unknown" | "replaced" | Exclude<KeyState, "active">;
      /** Set if the key was not looked up, because its address or network has sent too many unknown ones. */
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

/** An unknown key is cached too, but neither revalidated, because it may be one of a flood, nor served stale. */
const UNKNOWN: Lifetime = { freshMs: FRESH_MS, revalidateMs: FRESH_MS, staleIfErrorMs: 0 };
const FOUND: Lifetime = { freshMs: FRESH_MS, revalidateMs: REVALIDATE_MS, staleIfErrorMs: 5 * 60_000 };

/** How long a look-up that failed is not repeated: a database that hangs must not make every request wait. */
const FAILURE_MS = 5_000;

/** Together about 5 MB of the 128 that an isolate has. */
const MAX_KEYS = 10_000;
const MAX_HASHES = 1_000;

export class Authenticator {
  /** Keys by the hash of a secret; null if there is none. */
  readonly #keys: Cache<FoundKey | null, Context<KeysEnv>>;
  readonly #throttle = new LookupThrottle();
  /** The hashes of valid secrets: hashing costs a quarter of the processor time of a hot request. */
  readonly #hashes = new BoundedMap<string, string>(MAX_HASHES);

  constructor({ revalidation }: Optimizations) {
    const found = revalidation ? FOUND : { ...FOUND, revalidateMs: FRESH_MS };
    this.#keys = new Cache({
      load: (hash, c, known) => {
        // A key that was good when it was last looked up is not unknown, whatever else its address has sent.
        const buckets = known ? [] : lookupBuckets(c.req);
        return this.#throttle.run(buckets, c.get("nowMs"), () => findKeyByHash(c.env.DB, hash));
      },
      lifetimeOf: (key) => (key === null ? UNKNOWN : found),
      maxSize: MAX_KEYS,
      // If no stale key can be served meanwhile, only a database that hangs is given a pause: another failure may be over.
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

  /**
   * Sets `caller`, unless it is set. A key for which `mayBeStale` says so is not looked up again: it will be refused, and a flood
   * must not reach the database. Throws DatabaseUnavailable if a key can't be looked up and is not cached.
   */
  authenticate(mayBeStale?: (key: Key) => boolean): MiddlewareHandler<KeysEnv> {
    const isStaleEnough = mayBeStale && ((key: FoundKey | null) => key !== null && mayBeStale(key));
    return async (c, next) => {
      if (c.get("caller") === undefined) {
        const caller = await this.#identify(c, isStaleEnough);
        c.set("caller", caller);
        Object.assign(c.get("log"), { keyId: caller.keyId, plan: caller.key?.plan });
      }
      await next();
    };
  }

  async #identify(c: Context<KeysEnv>, mayBeStale?: (key: FoundKey | null) => boolean): Promise<Caller> {
    const secret = bearerToken(requestHeader(c.req.raw.headers, "Authorization"));
    const hash = secret === undefined ? undefined : this.#hashOf(secret);
    try {
      const key = hash === undefined ? null : await this.#keys.get(hash, c, mayBeStale);
      if (secret !== undefined && hash !== undefined && key !== null && !this.#hashes.has(secret)) {
        this.#hashes.set(secret, hash);
      }
      return callerOf(key, secret, c.get("nowMs"));
    } catch (error) {
      const refusal = refusalOf(error, lookupBuckets(c.req));
      // Another address that sent the same key had no slot; this one may have.
      return refusal === undefined ? this.#identify(c, mayBeStale) : { problem: "unknown", refusal };
    }
  }

  /** The hash of a secret that has the form of one. */
  #hashOf(secret: string): string | undefined {
    return this.#hashes.get(secret) ?? (isWellFormedSecret(secret) ? sha256(secret) : undefined);
  }
}

/** The token of a bearer credential (RFC 6750, section 2.1; the scheme is case-insensitive, RFC 9110, section 11.1). */
function bearerToken(authorization: string | undefined): string | undefined {
  return authorization?.match(/^bearer +(.+)/i)?.[1];
}

function callerOf(key: FoundKey | null, secret: string | undefined, nowMs: number): Caller {
  if (key === null) return { problem: secret === undefined ? "missing" : "unknown" };
  const state = stateOf(key, nowMs);
  const isReplaced = key.secretGoodUntilMs !== null && key.secretGoodUntilMs <= nowMs;
  if (state === "active" && !isReplaced) return { key, keyId: key.id };
  return { keyId: key.id, problem: state === "active" ? "replaced" : state };
}

/** Why a look-up had no slot in these buckets; undefined if it waited in others. Throws any other error. */
function refusalOf(error: unknown, buckets: readonly string[]): Decision | undefined {
  if (!(error instanceof NoSlot)) throw error;
  if (error.buckets.join() !== buckets.join()) return undefined;
  if (error.refusal === undefined) throw new DatabaseUnavailable(error, false);
  return error.refusal;
}
