// What the object of a key writes into the keys database for operators: bans, and the totals of days.

import { write, writeIdempotent } from "../d1/statements.ts";
import { formatTime } from "../lib/rfc3339.ts";
import type { Usage } from "../limits/index.ts";

/** The name of a ban in the record of changes; src/operators/changes.ts has the other names. The index `bans` has it too. */
export const BANNED = "banned";

/** No row for an object without a key, and no second one for the same ban. */
const INSERT_BAN = `
  INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by)
  SELECT id, ?2, '${BANNED}', ?3, 'rate limiter' FROM keys
  WHERE id = ?1 AND NOT EXISTS (
    SELECT 1 FROM key_changes WHERE key_id = ?1 AND change = '${BANNED}' AND to_value = ?3)`;

/** Idempotent. Throws DatabaseUnavailable. */
export async function writeBan(database: D1Database, keyId: string, untilMs: number): Promise<void> {
  await write(() => database.prepare(INSERT_BAN).bind(keyId, Date.now(), formatTime(untilMs)).run());
}

const COUNTS = "admitted, refused_by, busiest, last_admitted_ms, last_refused_ms";
const countsOf = (table: string) => COUNTS.replace(/\w+/g, `${table}.$&`);

/**
 * A row that was written late, by an object that has crashed since, does not replace a newer one. An unchanged row is not written, because
 * that costs as much as a change.
 */
const UPSERT_USAGE = `
  INSERT INTO key_usage (key_id, object, revision, day, ${COUNTS})
  SELECT ?1, ?2, ?3, value ->> 'date', value ->> 'admitted', value -> 'refusedBy', value -> 'busiest', nullif(value ->> 'lastAdmittedMs', 0), nullif(value ->> 'lastRefusedMs', 0)
  FROM json_each(?4) WHERE true
  ON CONFLICT DO UPDATE SET (revision, ${COUNTS}) = (excluded.revision, ${countsOf("excluded")})
  WHERE excluded.revision > key_usage.revision AND (${countsOf("excluded")}) IS NOT (${countsOf("key_usage")})`;

/** Writes days of a key. Idempotent. Throws DatabaseUnavailable. */
export async function writeUsage(database: D1Database, { id, object, revision, days }: Usage): Promise<void> {
  const statement = database.prepare(UPSERT_USAGE);
  await writeIdempotent(() => statement.bind(id, object, revision, JSON.stringify(days)).run());
}
