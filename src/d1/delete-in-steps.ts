// Deletes many rows in steps: other statements wait while one step runs. A run has a bound, and the next one continues.

import { writeIdempotent } from "./statements.ts";

/** At one run every ten minutes, this keeps up with 67 new rows a second. */
const ROWS_PER_STEP = 1_000;
const STEPS_PER_RUN = 40;

/**
 * Runs `sql`, which deletes at most ?2 rows that are older than ?1, until none are left or the run is over. Returns the number of deleted
 * rows. Throws DatabaseUnavailable.
 */
export async function deleteInSteps(
  database: D1Database,
  sql: string,
  before: number | string,
): Promise<number> {
  let deleted = 0;
  for (let step = 0; step < STEPS_PER_RUN; step += 1) {
    const { meta } = await writeIdempotent(() => database.prepare(sql).bind(before, ROWS_PER_STEP).run());
    deleted += meta.changes;
    if (meta.changes < ROWS_PER_STEP) break;
  }
  return deleted;
}
