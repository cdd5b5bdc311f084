// Records a ban in D1, so that operators see it and can lift it. A ban does not depend on its row.

import { write } from "../../d1/statements.ts";
import { formatTime } from "../../lib/rfc3339.ts";

/** The name of a ban in the record of changes; src/operators/changes.ts has the other names. The index `bans` has it too. */
export const BANNED = "banned";

/** No row for an object without a key, and no second one for the same ban. */
const INSERT_BAN = `
  INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by)
  SELECT id, ?2, '${BANNED}', ?3, 'rate limiter' FROM keys
  WHERE id = ?1 AND NOT EXISTS (
    SELECT 1 FROM key_changes WHERE key_id = ?1 AND change = '${BANNED}' AND to_value = ?3)`;

/** Idempotent. Throws DatabaseUnavailable. */
export async function recordBan(database: D1Database, keyId: string, untilMs: number): Promise<void> {
  await write(() => database.prepare(INSERT_BAN).bind(keyId, Date.now(), formatTime(untilMs)).run());
}
