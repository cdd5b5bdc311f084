// API keys in D1, as the Worker reads them: by the hash of a secret. Secrets never get here.

import { read } from "../d1/statements.ts";
import { PLAN_LIMITS, type Plan } from "../rate-limit/plans.ts";
import type { LimitedKey } from "../rate-limit/protocol.ts";

/** A key as the Worker needs it. `id` is public and names the key's Durable Object. Times are Unix time; null: never. */
export interface Key extends LimitedKey {
  plan: Plan;
  expiresAtMs: number | null;
  revokedAtMs: number | null;
}

/** A key found by one of its secrets. If a rotation has replaced the secret, it has an end. */
export type FoundKey = Key & { secretGoodUntilMs: number | null };

export type KeyState = "active" | "expired" | "revoked";

/** A row, whose columns are named like the fields. It has limits exactly if its plan has none. */
export type Row<AnyKey extends Key> = Omit<AnyKey, "limits"> & {
  perMinute: number | null;
  perDay: number | null;
};

export const KEY_COLUMNS = `
  id, plan, per_minute AS perMinute, per_day AS perDay, expires_at_ms AS expiresAtMs, revoked_at_ms AS revokedAtMs,
  coalesce(bans_lifted_until_ms, 0) AS bansLiftedUntilMs`;

const SELECT_KEY_BY_HASH = `
  SELECT ${KEY_COLUMNS}, NULL AS secretGoodUntilMs FROM keys WHERE hash = unhex(?1)
  UNION ALL
  SELECT ${KEY_COLUMNS}, good_until_ms FROM replaced_secrets JOIN keys ON keys.id = key_id
  WHERE replaced_secrets.hash = unhex(?1)`;

/** Finds a key, in any state, by the SHA-256 (hexadecimal) of a secret. */
export async function findKeyByHash(database: D1Database, hash: string): Promise<FoundKey | null> {
  const row = await read(() => database.prepare(SELECT_KEY_BY_HASH).bind(hash).first<Row<FoundKey>>());
  return row && keyOf(row);
}

/** A key's state at `nowMs` (Unix time). */
export function stateOf({ revokedAtMs, expiresAtMs }: Key, nowMs: number): KeyState {
  if (revokedAtMs !== null) return "revoked";
  return expiresAtMs !== null && expiresAtMs <= nowMs ? "expired" : "active";
}

export function keyOf<AnyKey extends Key>({ perMinute, perDay, ...key }: Row<AnyKey>) {
  return { ...key, limits: PLAN_LIMITS[key.plan] ?? { minute: perMinute ?? 0, day: perDay ?? 0 } };
}
