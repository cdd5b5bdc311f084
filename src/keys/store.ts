// API keys in D1. All SQL about keys is here; the Worker reads with it, the command line writes. No secret ever comes
// this far, only its hash.

import { read, write } from "../d1/statements.ts";
import { PLAN_LIMITS, type Plan } from "../rate-limit/plans.ts";
import type { LimitedKey } from "../rate-limit/protocol.ts";
import type { Limits } from "../rate-limit/windows.ts";

/** A key as the Worker needs it. `id` is public; it names the key's counters. Times are Unix time; null: never. */
export interface Key extends LimitedKey {
  plan: Plan;
  expiresAtMs: number | null;
  revokedAtMs: number | null;
}

/** A key as one of its secrets finds it: with the end of that secret, if a rotation has replaced it. */
export interface FoundKey extends Key {
  secretGoodUntilMs: number | null;
}

/** A key as its operator sees it. */
export interface KeyRecord extends Key {
  name: string;
  lastFour: string;
  createdAtMs: number;
}

export type KeyState = "active" | "expired" | "revoked";

interface KeyRow {
  id: string;
  plan: Plan;
  per_minute: number | null;
  per_day: number | null;
  expires_at_ms: number | null;
  revoked_at_ms: number | null;
}

interface KeyRecordRow extends KeyRow {
  name: string;
  last_four: string;
  created_at_ms: number;
}

const KEY = "keys.id, plan, per_minute, per_day, expires_at_ms, revoked_at_ms";
const RECORD = "id, name, plan, per_minute, per_day, last_four, created_at_ms, expires_at_ms, revoked_at_ms";

/** Revoked and expired keys stay as they are. ?1: the id, ?2: now. */
const ACTIVE = "id = ?1 AND revoked_at_ms IS NULL AND (expires_at_ms IS NULL OR expires_at_ms > ?2)";

const SELECT_KEY_BY_HASH = `
  SELECT ${KEY}, NULL AS good_until_ms FROM keys WHERE hash = unhex(?1)
  UNION ALL
  SELECT ${KEY}, good_until_ms FROM replaced_secrets JOIN keys ON keys.id = key_id
  WHERE replaced_secrets.hash = unhex(?1)`;
const SELECT_KEY_BY_ID = `SELECT ${RECORD} FROM keys WHERE id = ?1`;
const SELECT_KEYS = `SELECT ${RECORD} FROM keys ORDER BY created_at_ms, id`;
const INSERT_KEY = `
  INSERT INTO keys (id, name, plan, per_minute, per_day, last_four, created_at_ms, expires_at_ms, hash)
  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, unhex(?9))`;
const REVOKE_KEY = `UPDATE keys SET revoked_at_ms = ?2 WHERE id = ?1 AND revoked_at_ms IS NULL RETURNING ${RECORD}`;
const SET_PLAN = `
  UPDATE keys SET plan = ?3, per_minute = ?4, per_day = ?5, plan_set_at_ms = ?2
  WHERE ${ACTIVE} RETURNING ${RECORD}`;

// A rotation: who is in a grace keeps no longer one, who was current gets one, and there is a new one. In this order each
// step alone does no harm, and all of it may be done again: over Cloudflare's API, a batch is not said to be a transaction.
const SHORTEN_GRACES = `
  UPDATE replaced_secrets SET good_until_ms = ?3
  WHERE key_id = (SELECT id FROM keys WHERE ${ACTIVE}) AND good_until_ms > ?3`;
const KEEP_REPLACED = `
  INSERT OR REPLACE INTO replaced_secrets (hash, key_id, good_until_ms) SELECT hash, id, ?3 FROM keys WHERE ${ACTIVE}`;
const SET_SECRET = `UPDATE keys SET hash = unhex(?3), last_four = ?4 WHERE ${ACTIVE} RETURNING ${RECORD}`;

/** The key with a secret of this SHA-256 (hexadecimal), in whatever state, or null. */
export async function findKeyByHash(database: D1Database, hash: string): Promise<FoundKey | null> {
  const row = await read(() =>
    database.prepare(SELECT_KEY_BY_HASH).bind(hash).first<KeyRow & { good_until_ms: number | null }>(),
  );
  return row && { ...keyOf(row), secretGoodUntilMs: row.good_until_ms };
}

/** The key with this id, in whatever state. */
export async function findKeyById(database: D1Database, id: string): Promise<KeyRecord | undefined> {
  const row = await read(() => database.prepare(SELECT_KEY_BY_ID).bind(id).first<KeyRecordRow>());
  return row === null ? undefined : recordOf(row);
}

/** All keys, the oldest first. */
export async function listKeys(database: D1Database): Promise<KeyRecord[]> {
  const { results } = await read(() => database.prepare(SELECT_KEYS).all<KeyRecordRow>());
  return results.map(recordOf);
}

/** Stores a key under the SHA-256 (hexadecimal) of its secret. Throws if the schema of the table forbids it. */
export async function insertKey(database: D1Database, key: KeyRecord, hash: string): Promise<void> {
  const { id, name, plan, lastFour, createdAtMs, expiresAtMs } = key;
  const values = [id, name, plan, ...ownLimits(plan, key.limits), lastFour, createdAtMs, expiresAtMs, hash];
  await write(() =>
    database
      .prepare(INSERT_KEY)
      .bind(...values)
      .run(),
  );
}

/** Marks a key as revoked. Undefined if there is none with this id, or it is revoked already. */
export function setRevoked(database: D1Database, id: string, nowMs: number): Promise<KeyRecord | undefined> {
  return change(() => database.prepare(REVOKE_KEY).bind(id, nowMs).first<KeyRecordRow>());
}

/** Puts a key on a plan. Undefined if there is no active key with this id. */
export function setPlan(
  database: D1Database,
  id: string,
  plan: Plan,
  limits: Limits,
  nowMs: number,
): Promise<KeyRecord | undefined> {
  const values = [id, nowMs, plan, ...ownLimits(plan, limits)];
  return change(() =>
    database
      .prepare(SET_PLAN)
      .bind(...values)
      .first<KeyRecordRow>(),
  );
}

/**
 * Gives a key another secret, in one transaction; all earlier ones end at `goodUntilMs` at the latest. Undefined if
 * there is no active key with this id.
 */
export function replaceSecret(
  database: D1Database,
  id: string,
  { hash, lastFour }: { hash: string; lastFour: string },
  goodUntilMs: number,
  nowMs: number,
): Promise<KeyRecord | undefined> {
  return change(async () => {
    const results = await database.batch<KeyRecordRow>([
      database.prepare(SHORTEN_GRACES).bind(id, nowMs, goodUntilMs),
      database.prepare(KEEP_REPLACED).bind(id, nowMs, goodUntilMs),
      database.prepare(SET_SECRET).bind(id, nowMs, hash, lastFour),
    ]);
    return results[2]?.results[0] ?? null;
  });
}

/** A key's state at `nowMs` (Unix time). */
export function stateOf({ revokedAtMs, expiresAtMs }: Key, nowMs: number): KeyState {
  if (revokedAtMs !== null) return "revoked";
  return expiresAtMs !== null && expiresAtMs <= nowMs ? "expired" : "active";
}

async function change(run: () => Promise<KeyRecordRow | null>): Promise<KeyRecord | undefined> {
  const row = await write(run);
  return row === null ? undefined : recordOf(row);
}

/** The limits as the table has them: for enterprise only, because the other plans have theirs in the code. */
function ownLimits(plan: Plan, { minute, day }: Limits): [number, number] | [null, null] {
  return plan === "enterprise" ? [minute, day] : [null, null];
}

function keyOf(row: KeyRow): Key {
  return {
    id: row.id,
    plan: row.plan,
    // The table has limits exactly where the plan has none.
    limits: PLAN_LIMITS[row.plan] ?? { minute: row.per_minute ?? 0, day: row.per_day ?? 0 },
    expiresAtMs: row.expires_at_ms,
    revokedAtMs: row.revoked_at_ms,
  };
}

function recordOf(row: KeyRecordRow): KeyRecord {
  return { ...keyOf(row), name: row.name, lastFour: row.last_four, createdAtMs: row.created_at_ms };
}
