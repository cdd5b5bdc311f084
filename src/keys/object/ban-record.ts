// Records a ban in D1, so that operators see it and can lift it. A ban does not depend on its row.

import { write } from "../../d1/statements.ts";

/** No row for an object without a key, and no second one for the same ban. */
const INSERT_BAN = `
  INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by)
  SELECT id, ?2, 'banned', strftime('%Y-%m-%dT%H:%M:%SZ', ?3 / 1000, 'unixepoch'), 'rate limiter' FROM keys
  WHERE id = ?1 AND NOT EXISTS (
    SELECT 1 FROM key_changes
    WHERE key_id = ?1 AND change = 'banned' AND to_value = strftime('%Y-%m-%dT%H:%M:%SZ', ?3 / 1000, 'unixepoch'))`;

/** Idempotent. Throws DatabaseUnavailable. */
export async function recordBan(database: D1Database, keyId: string, untilMs: number): Promise<void> {
  await write(() => database.prepare(INSERT_BAN).bind(keyId, Date.now(), untilMs).run());
}
