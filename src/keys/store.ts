// API keys in D1: the Worker reads them, the command line writes them. Secrets never get here, only their hashes.

import { read, write } from "../d1/statements.ts";
import { PLAN_LIMITS, type Plan } from "../rate-limit/plans.ts";
import type { LimitedKey } from "../rate-limit/protocol.ts";
import type { Limits } from "../rate-limit/windows.ts";

/** A key as the Worker needs it. `id` is public and names the key's Durable Object. Times are Unix time; null: never. */
export interface Key extends LimitedKey {
  plan: Plan;
  expiresAtMs: number | null;
  revokedAtMs: number | null;
}

/** A key found by one of its secrets. If a rotation has replaced the secret, it has an end. */
export type FoundKey = Key & { secretGoodUntilMs: number | null };

/** A key as operators see it. */
export type KeyRecord = Key & { name: string; lastFour: string; createdAtMs: number };

export type KeyState = "active" | "expired" | "revoked";

/** A row, whose columns are named like the fields. It has limits exactly if its plan has none. */
type Row<AnyKey extends Key> = Omit<AnyKey, "limits"> & { perMinute: number | null; perDay: number | null };

const KEY =
  "id, plan, per_minute AS perMinute, per_day AS perDay, expires_at_ms AS expiresAtMs, revoked_at_ms AS revokedAtMs";
const RECORD = `${KEY}, name, last_four AS lastFour, created_at_ms AS createdAtMs`;

/** ?1: the id, ?2: now. */
const ACTIVE = "id = ?1 AND revoked_at_ms IS NULL AND (expires_at_ms IS NULL OR expires_at_ms > ?2)";

const SELECT_KEY_BY_HASH = `
  SELECT ${KEY}, NULL AS secretGoodUntilMs FROM keys WHERE hash = unhex(?1)
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

// A rotation shortens all graces to its own, gives the current secret one, and sets the new secret. Cloudflare's API does not
// document a batch to be a transaction; in this order an interrupted rotation is harmless and can be repeated.
const SHORTEN_GRACES = `
  UPDATE replaced_secrets SET good_until_ms = ?3
  WHERE key_id = (SELECT id FROM keys WHERE ${ACTIVE}) AND good_until_ms > ?3`;
const KEEP_REPLACED = `
  INSERT OR REPLACE INTO replaced_secrets (hash, key_id, good_until_ms) SELECT hash, id, ?3 FROM keys WHERE ${ACTIVE}`;
const SET_SECRET = `UPDATE keys SET hash = unhex(?3), last_four = ?4 WHERE ${ACTIVE} RETURNING ${RECORD}`;

/** Finds a key, in any state, by the SHA-256 (hexadecimal) of a secret. */
export async function findKeyByHash(database: D1Database, hash: string): Promise<FoundKey | null> {
  const row = await read(() => database.prepare(SELECT_KEY_BY_HASH).bind(hash).first<Row<FoundKey>>());
  return row && keyOf(row);
}

/** Finds a key in any state. */
export async function findKeyById(database: D1Database, id: string): Promise<KeyRecord | undefined> {
  const row = await read(() => database.prepare(SELECT_KEY_BY_ID).bind(id).first<Row<KeyRecord>>());
  return row === null ? undefined : keyOf(row);
}

/** All keys, oldest first. */
export async function listKeys(database: D1Database): Promise<KeyRecord[]> {
  const { results } = await read(() => database.prepare(SELECT_KEYS).all<Row<KeyRecord>>());
  return results.map(keyOf);
}

/** Stores a key under the SHA-256 (hexadecimal) of its secret. Throws if it violates the schema of the table. */
export async function insertKey(database: D1Database, key: KeyRecord, hash: string): Promise<void> {
  const { id, name, plan, lastFour, createdAtMs, expiresAtMs } = key;
  const values = [id, name, plan, ...ownLimits(plan, key.limits), lastFour, createdAtMs, expiresAtMs, hash];
  const statement = database.prepare(INSERT_KEY).bind(...values);
  await write(() => statement.run());
}

/** Revokes a key. Returns undefined if there is no such key, or it is already revoked. */
export function setRevoked(database: D1Database, id: string, nowMs: number): Promise<KeyRecord | undefined> {
  return change(() => database.prepare(REVOKE_KEY).bind(id, nowMs).first());
}

/** Sets the plan of a key. Returns undefined if there is no active key with this id. */
export function setPlan(
  database: D1Database,
  id: string,
  plan: Plan,
  limits: Limits,
  nowMs: number,
): Promise<KeyRecord | undefined> {
  const statement = database.prepare(SET_PLAN).bind(id, nowMs, plan, ...ownLimits(plan, limits));
  return change(() => statement.first());
}

/** Gives a key a new secret; earlier secrets end by `goodUntilMs`. Returns undefined if there is no active key with this id. */
export function replaceSecret(
  database: D1Database,
  id: string,
  { hash, lastFour }: { hash: string; lastFour: string },
  goodUntilMs: number,
  nowMs: number,
): Promise<KeyRecord | undefined> {
  return change(async () => {
    const results = await database.batch<Row<KeyRecord>>([
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

async function change(run: () => Promise<Row<KeyRecord> | null>): Promise<KeyRecord | undefined> {
  const row = await write(run);
  return row === null ? undefined : keyOf(row);
}

/** The limits to store: only for enterprise, because the code has those of the other plans. */
function ownLimits(plan: Plan, { minute, day }: Limits): [number, number] | [null, null] {
  return plan === "enterprise" ? [minute, day] : [null, null];
}

function keyOf<AnyKey extends Key>({ perMinute, perDay, ...key }: Row<AnyKey>) {
  return { ...key, limits: PLAN_LIMITS[key.plan] ?? { minute: perMinute ?? 0, day: perDay ?? 0 } };
}
