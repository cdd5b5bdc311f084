// Finds out who calls: reads the key from the request and looks it up, in the isolate's memory first. It refuses nobody.
// What a caller without a valid key gets is decided later: a 429 comes before a 401.
//
// Keys are read at the primary only. A replica may be behind by any time, and would bring back a key that has ended. The
// trade-off: the first request of a key in an isolate waits for the primary, however far away that is.

import { waitUntil } from "cloudflare:workers";
import type { Context, MiddlewareHandler } from "hono";
import { DatabaseUnavailable } from "../d1/statements.ts";
import type { AppEnv } from "../env.ts";
import { lookupBuckets } from "../http/client-address.ts";
import { noteFailure } from "../http/log.ts";
import { requestHeader } from "../http/request-header.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import { DeadlineExceeded } from "../lib/deadline.ts";
import { ageMs, BELIEVED_MS, isBelieved, isDue } from "../lib/freshness.ts";
import { sha256 } from "../lib/sha256.ts";
import { SingleFlight } from "../lib/single-flight.ts";
import { rememberedBan } from "../rate-limit/isolate/limiter-clients.ts";
import type { Decision } from "../rate-limit/windows.ts";
import { Guesses } from "./lookup-throttle.ts";
import { isWellFormedSecret } from "./secret.ts";
import { type FoundKey, findKeyByHash, type Key, type KeyState, stateOf } from "./store.ts";

/** How long a key that was found stays good beyond that if the database can't be reached. */
const MORE_IN_OUTAGE_MS = 5 * 60_000;

/** How long nobody looks a key up again after that failed: a database that hangs must not make every request wait. */
const OUTAGE_PAUSE_MS = 5_000;

/** Together about 5 MB of the 128 that an isolate has. */
const MAX_LOOKUPS = 10_000;
const MAX_OUTAGES = 1_000;
const MAX_HASHES = 1_000;

/** What the primary said of a secret. */
interface Lookup {
  key: FoundKey | undefined;
  madeAtMs: number;
}

interface Outage {
  error: DatabaseUnavailable;
  atMs: number;
}

/** Who calls: a valid key, or what is wrong with what was sent. `keyId` also names a key that is no longer valid. */
export type Caller = { key: Key; keyId: string; problem?: never; refusal?: never } | InvalidCaller;

interface InvalidCaller {
  key?: never;
  keyId?: string;
  problem: "missing" | "unknown" | "replaced" | Exclude<KeyState, "active">;
  /** Refuses the request if its key was not looked up, because too many of its address or network were unknown. */
  refusal?: Decision;
}

/** What was found lately, and what was not, by the hash of the secret. */
const lookups = new BoundedMap<string, Lookup>(MAX_LOOKUPS);

/**
 * The hashes of secrets that are in use, because to hash one costs as much as all else that finds out who calls. A secret
 * is here only if it is one, and only where the requests that bring it are in memory too.
 */
const hashes = new BoundedMap<string, string>(MAX_HASHES);

/** Look-ups that could not be made lately, by the same. A flood of keys that nobody has must not drive out `lookups`. */
const outages = new BoundedMap<string, Outage>(MAX_OUTAGES);

/** Look-ups that are under way, by the same. */
const flights = new SingleFlight<Lookup | undefined>();

/** What guessing keys may cost. */
const guesses = new Guesses();

/**
 * Sets `caller`. At the path `servesBanned` a banned key is served like any other; elsewhere it will be refused, so that
 * what was known of it is good enough. Throws DatabaseUnavailable if a key can't be looked up and was not known lately.
 */
export function identifyCaller({ servesBanned }: { servesBanned: string }): MiddlewareHandler<AppEnv> {
  return async function identifyCaller(c, next) {
    const secret = bearerToken(requestHeader(c.req.raw.headers, "Authorization"));
    if (secret === undefined) {
      c.set("caller", { problem: "missing" });
    } else {
      const found = findCaller(c, secret, c.req.path !== servesBanned);
      c.set("caller", found instanceof Promise ? await found : found);
    }
    await next();
  };
}

/** The token of a bearer credential (RFC 6750, section 2.1; the scheme is case-insensitive, RFC 9110, section 11.1). */
function bearerToken(authorization: string | undefined): string | undefined {
  return authorization?.match(/^bearer +(.+)/i)?.[1];
}

function callerOf(found: FoundKey | undefined, nowMs: number): Caller {
  if (found === undefined) return { problem: "unknown" };
  const state = stateOf(found, nowMs);
  const isReplaced = found.secretGoodUntilMs !== null && found.secretGoodUntilMs <= nowMs;
  if (state === "active" && !isReplaced) return { key: found, keyId: found.id };
  return { keyId: found.id, problem: state === "active" ? "replaced" : state };
}

/** Who has this secret; at once if nobody has to be asked. */
function findCaller(c: Context<AppEnv>, secret: string, mayBeBanned: boolean): Caller | Promise<Caller> {
  let hash = hashes.get(secret);
  if (hash === undefined) {
    if (!isWellFormedSecret(secret)) return { problem: "unknown" };
    hash = sha256(secret);
  }
  const nowMs = c.get("nowMs");
  const known = lookups.get(hash);
  if (known !== undefined && mayBelieve(known, nowMs, mayBeBanned)) {
    if (known.key !== undefined) {
      if (!hashes.has(secret)) hashes.set(secret, hash);
      // A flood of a key that is banned does not reach the database.
      const mustRefresh = isDue(known.madeAtMs, nowMs) && !(mayBeBanned && rememberedBan(known.key));
      if (mustRefresh) refresh(c.env.DB, hash, nowMs);
    }
    return callerOf(known.key, nowMs);
  }
  return lookUpCaller(c, hash, known);
}

/** Who has a secret of this hash, after a look-up, or as it was `known` if that fails. */
async function lookUpCaller(c: Context<AppEnv>, hash: string, known: Lookup | undefined): Promise<Caller> {
  const nowMs = c.get("nowMs");
  // A key that was good when it was last looked up is no guess, whoever else calls from its address.
  const buckets = known?.key === undefined ? lookupBuckets(c.req) : [];
  const isInGrace = known !== undefined && ageMs(known.madeAtMs, nowMs) < BELIEVED_MS + MORE_IN_OUTAGE_MS;
  const fallback = isInGrace ? known.key : undefined;
  try {
    const found = await lookUp(c.env.DB, hash, nowMs, fallback !== undefined, buckets);
    if (found !== undefined) return callerOf(found.key, nowMs);
    return { problem: "unknown", refusal: guesses.refusal(buckets, nowMs) };
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable && fallback !== undefined)) throw error;
    noteFailure(c, "database_unavailable", error.cause);
    return callerOf(fallback, nowMs);
  }
}

/** Looks a key up again before it is no longer believed. If that fails, the request that needs it finds out. */
function refresh(database: D1Database, hash: string, nowMs: number): void {
  if (flights.isUnderway(hash)) return;
  const refreshing = flights.run(hash, () => ask(database, hash, nowMs));
  waitUntil(refreshing.catch(() => {}));
}

/** Asks the primary, and remembers its answer. */
async function ask(database: D1Database, hash: string, madeAtMs: number): Promise<Lookup> {
  const lookup = { key: await findKeyByHash(database, hash), madeAtMs };
  lookups.set(hash, lookup);
  return lookup;
}

/**
 * Looks a key up, unless the database has only just failed to answer the same. Without a fallback that goes for a database
 * that hangs alone: one that failed at once may have recovered at once. Undefined if `buckets`, by which unknown keys are
 * counted, have no look-up left.
 */
async function lookUp(
  database: D1Database,
  hash: string,
  nowMs: number,
  hasFallback: boolean,
  buckets: readonly string[],
): Promise<Lookup | undefined> {
  // Not when the request arrived: whoever gave up has waited since then.
  const outage = outages.get(hash);
  const hasJustFailed = outage !== undefined && Math.abs(Date.now() - outage.atMs) < OUTAGE_PAUSE_MS;
  const isHanging = outage?.error.cause instanceof DeadlineExceeded;
  if (hasJustFailed && (hasFallback || isHanging)) throw outage.error;
  let lookup: Lookup | undefined;
  let isOwn = false;
  try {
    // It counts there, because that goes on when a client leaves. If another address had no place for it, this one may have.
    while (lookup === undefined && !isOwn) {
      lookup = await flights.run(hash, () => {
        isOwn = true;
        return guesses.lookUp(buckets, nowMs, () => ask(database, hash, nowMs));
      });
    }
  } catch (error) {
    if (error instanceof DatabaseUnavailable) outages.set(hash, { error, atMs: Date.now() });
    throw error;
  }
  if (lookup === undefined && !guesses.areUsedUp(buckets, nowMs)) {
    throw new DatabaseUnavailable(new Error("too many keys of one address are being looked up"), false);
  }
  return lookup;
}

/**
 * Whether a look-up is as good as a new one: it is recent; or what it found is banned, in which case it is refused
 * anyway, and a flood must not reach the database.
 */
function mayBelieve({ key, madeAtMs }: Lookup, nowMs: number, mayBeBanned: boolean): boolean {
  if (isBelieved(madeAtMs, nowMs)) return true;
  return mayBeBanned && key !== undefined && rememberedBan(key) !== undefined;
}
