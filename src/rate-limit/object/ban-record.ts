// Records a ban in D1, so that operators see it and can lift it. Best effort: a ban does not depend on its row.

import { write } from "../../d1/statements.ts";
import { logRun } from "../../http/log.ts";

/** No row for an object without a key. */
const INSERT_BAN = `
  INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by)
  SELECT id, ?2, 'banned', strftime('%Y-%m-%dT%H:%M:%SZ', ?3 / 1000, 'unixepoch'), 'rate limiter' FROM keys WHERE id = ?1`;

/** Never rejects. */
export async function recordBan(database: D1Database, keyId: string, untilMs: number): Promise<void> {
  try {
    await write(() => database.prepare(INSERT_BAN).bind(keyId, Date.now(), untilMs).run());
  } catch (error) {
    logRun("ban_not_recorded", { keyId, cause: `${error}` });
  }
}
