// Keys, as the Worker reads them from the keys database. At the primary only: a lagging replica would revive a revoked
// key. Secrets never get here.

import { read } from "../d1/statements.ts";
import { MAX_LIMIT } from "../limits/index.ts";
import type { Key, KeyFields } from "./key.ts";
import { type Limits, limitsOf, noLimits, SHORTEST, WINDOW_NAMES } from "./plans.ts";

/** The columns that decide the limits of a key: `limits` is JSON, or null if its plan has limits. */
interface RowLimits {
  plan: string;
  limits: string | null;
}

/** A row, whose columns are named like the fields. */
export type Row<AnyKey> = Omit<AnyKey, "limits"> & Pick<RowLimits, "limits">;

const COLUMNS: Record<keyof Row<KeyFields>, string> = {
  id: "id",
  plan: "plan",
  limits: "limits",
  access: "iif(read_only = 1, 'read', 'write')",
  expiresAtMs: "expires_at_ms",
  revokedAtMs: "revoked_at_ms",
  suspendedAtMs: "suspended_at_ms",
  bansLiftedUntilMs: "coalesce(bans_lifted_until_ms, 0)",
};
export const KEY_COLUMNS = Object.entries(COLUMNS)
  .map(([field, sql]) => `${sql} AS ${field}`)
  .join(", ");

const SELECT_RECORD = `
  SELECT ${KEY_COLUMNS}, lower(hex(hash)) AS hash, (
    SELECT json_group_array(json_object('hash', lower(hex(hash)), 'goodUntilMs', good_until_ms))
    FROM replaced_secrets WHERE key_id = keys.id
  ) AS replaced FROM keys WHERE id = ?1`;

/** Reads a key in any state; null if it does not exist. Throws DatabaseUnavailable, or an Error for a key without limits. */
export async function findKey(database: D1Database, id: string): Promise<Key | null> {
  type RecordRow = Row<KeyFields> & { hash: string; replaced: string };
  const row = await read(() => database.prepare(SELECT_RECORD).bind(id).first<RecordRow>());
  if (row === null) return null;
  const { hash, replaced, ...key } = row;
  const limits = limitsOfRow(row);
  if (limits === undefined) throw new Error(noLimits(key));
  return { ...key, limits, secrets: [{ hash, goodUntilMs: null }, ...JSON.parse(replaced)] };
}

/** Undefined if this version does not know the plan of the row, or if the row lacks the limits that its plan needs. */
export function limitsOfRow({ plan, limits }: RowLimits): Limits | undefined {
  const own: unknown = limits === null ? null : JSON.parse(limits);
  return limitsOf(plan, areLimits(own) ? own : undefined);
}

/** Whoever writes the database by hand may write anything. Only the shortest window was there from the beginning. */
function areLimits(value: unknown): value is Limits {
  const limits = Object(value);
  return WINDOW_NAMES.every((name) => {
    const { [name]: limit } = limits;
    const isMissing = limit === undefined && name !== SHORTEST;
    return isMissing || (Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT);
  });
}
