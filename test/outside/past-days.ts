// Gives keys a past, which a service that has just been started can't have: rows of earlier days in their objects' storage,
// as src/rate-limit/limiter.ts writes them.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { DAYS_KEPT } from "../../src/rate-limit/meter.ts";

const DAY_MS = 86_400_000;

/**
 * Writes what was admitted and refused on days before today into every object in the state of a running service. The
 * first of `days` is yesterday.
 */
export function writePastDays(
  state: string,
  days: { admitted: number; refused: number }[],
  nowMs: number,
): void {
  const folder = join(state, "v3/do/petstore-RateLimiter");
  for (const file of readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name))) {
    const database = new DatabaseSync(join(folder, file));
    // An object that was only asked how its key stands has stored nothing yet.
    const hasDays = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'days'").get() !== undefined;
    for (const [index, { admitted, refused }] of hasDays ? days.entries() : []) {
      const day = Math.floor(nowMs / DAY_MS) - 1 - index;
      database
        .prepare(
          `INSERT OR REPLACE INTO days (slot, minute_start_ms, minute_used, minute_refused, day_start_ms, day_used, day_refused,
            banned_until_ms, recent_takes) VALUES (?, ?, 0, 0, ?, ?, ?, 0, '')`,
        )
        .run(day % DAYS_KEPT, day * DAY_MS, day * DAY_MS, admitted, refused);
    }
    database.close();
  }
}
