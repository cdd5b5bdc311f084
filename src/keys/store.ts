// API keys in D1. All SQL about keys is here; the Worker reads with it, the command line writes. No secret ever comes
// this far, only its hash.

import { read, write } from "../database.ts";
import type { Limits } from "../rate-limit/window.ts";
import { PLAN_LIMITS, type Plan } from "./plans.ts";

/** A key as the Worker needs it. `id` is public; it names the key's counters. Times are Unix time. */
export interface Key {
  id: string;
  plan: Plan;
  limits: Limits;
  expiresAtMs: number | null;
}

/** A key as its operator sees it. */
export interface KeyRecord extends Key {
  name: string;
  lastFour: string;
  createdAtMs: number;
}

interface KeyRow {
  id: string;
  name: string;
  plan: Plan;
  per_minute: number | null;
  per_day: number | null;
  last_four: string;
  created_at_ms: number;
  expires_at_ms: number | null;
}

const COLUMNS = "id, name, plan, per_minute, per_day, last_four, created_at_ms, expires_at_ms";
const SELECT_KEY_BY_HASH = `SELECT ${COLUMNS} FROM keys WHERE hash = unhex(?1)`;
const SELECT_KEYS = `SELECT ${COLUMNS} FROM keys ORDER BY created_at_ms, id`;
const INSERT_KEY = `INSERT INTO keys (${COLUMNS}, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, unhex(?9))`;

/** The key with this SHA-256 (hexadecimal), expired or not. */
export async function findKeyByHash(database: D1Database, hash: string): Promise<Key | undefined> {
  const statement = database.prepare(SELECT_KEY_BY_HASH).bind(hash);
  const row = await read(() => statement.first<KeyRow>());
  return row === null ? undefined : keyRecord(row);
}

/** All keys, the oldest first. */
export async function listKeys(database: D1Database): Promise<KeyRecord[]> {
  const statement = database.prepare(SELECT_KEYS);
  const { results } = await read(() => statement.all<KeyRow>());
  return results.map(keyRecord);
}

/** Stores a key under the SHA-256 (hexadecimal) of its secret. Throws if the schema of the table forbids it. */
export async function insertKey(database: D1Database, key: KeyRecord, hash: string): Promise<void> {
  const { id, name, plan, lastFour, createdAtMs, expiresAtMs } = key;
  const own = plan === "enterprise" ? key.limits : { minute: null, day: null };
  const statement = database
    .prepare(INSERT_KEY)
    .bind(id, name, plan, own.minute, own.day, lastFour, createdAtMs, expiresAtMs, hash);
  await write(() => statement.run());
}

function keyRecord(row: KeyRow): KeyRecord {
  return {
    id: row.id,
    name: row.name,
    plan: row.plan,
    // The table has limits exactly where the plan has none.
    limits: PLAN_LIMITS[row.plan] ?? { minute: row.per_minute ?? 0, day: row.per_day ?? 0 },
    lastFour: row.last_four,
    createdAtMs: row.created_at_ms,
    expiresAtMs: row.expires_at_ms,
  };
}
