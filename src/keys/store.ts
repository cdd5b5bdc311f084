// The records of keys, as the Worker reads them from the keys database. At the primary only: a lagging replica would revive a revoked
// key. Secrets never get here.

import { read } from "../d1/statements.ts";
import { PLAN_LIMITS } from "./plans.ts";
import type { Key, KeyRecord } from "./record.ts";

/** A row, whose columns are named like the fields. It has limits only if its plan has none. */
export type Row<AnyKey extends Key> = Omit<AnyKey, "limits"> & {
  perMinute: number | null;
  perDay: number | null;
};

export const KEY_COLUMNS = `
  id, plan, per_minute AS perMinute, per_day AS perDay, expires_at_ms AS expiresAtMs, revoked_at_ms AS revokedAtMs,
  coalesce(bans_lifted_until_ms, 0) AS bansLiftedUntilMs`;

const SELECT_RECORD = `
  SELECT ${KEY_COLUMNS}, lower(hex(hash)) AS hash, (
    SELECT json_group_array(json_object('hash', lower(hex(hash)), 'goodUntilMs', good_until_ms))
    FROM replaced_secrets WHERE key_id = keys.id
  ) AS replaced FROM keys WHERE id = ?1`;

/** Reads the record of a key in any state; null if it does not exist. Throws DatabaseUnavailable. */
export async function findRecord(database: D1Database, id: string): Promise<KeyRecord | null> {
  type RecordRow = Row<Key> & { hash: string; replaced: string };
  const row = await read(() => database.prepare(SELECT_RECORD).bind(id).first<RecordRow>());
  if (row === null) return null;
  const { hash, replaced, ...key } = row;
  return { ...keyOf(key), secrets: [{ hash, goodUntilMs: null }, ...JSON.parse(replaced)] };
}

/** The key of a row. Throws if the code does not know its plan. */
export function keyOf<AnyKey extends Key>({ perMinute, perDay, ...key }: Row<AnyKey>) {
  const own = perMinute === null || perDay === null ? undefined : { minute: perMinute, day: perDay };
  const limits = PLAN_LIMITS[key.plan] ?? own;
  if (limits === undefined) throw new Error(`the key ${key.id} has no limits: the plan is ${key.plan}`);
  return { ...key, limits };
}
