// The cron trigger. Only the size of a table depends on it.

import { logRun } from "./http/log.ts";
import { deleteExpired } from "./pets/idempotency.ts";

/** Deletes expired idempotency records. Throws DatabaseUnavailable; the next run continues. */
export async function scheduled(_controller: ScheduledController, env: Env): Promise<void> {
  logRun("idempotency_records_deleted", { records: await deleteExpired(env.PETS_DB, Date.now()) });
}
