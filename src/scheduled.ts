// The cron trigger. Only alerts of quotas and the sizes of tables depend on it.

import { logRun } from "./http/log.ts";
import { deleteOldUsage, takeAlerts } from "./operators/usage.ts";
import { deleteExpired } from "./pets/idempotency.ts";

/** Logs alerts of quotas, and deletes old usage of keys and expired idempotency records. Throws DatabaseUnavailable; the next run continues. */
export async function scheduled(_controller: ScheduledController, env: Env): Promise<void> {
  const nowMs = Date.now();
  try {
    await takeAlerts(env.KEYS_DB, nowMs, (alert) => logRun("quota_alert", alert));
    logRun("usage_rows_deleted", { rows: await deleteOldUsage(env.KEYS_DB, nowMs) });
  } finally {
    // Another database, which may work while that of the keys does not.
    logRun("idempotency_records_deleted", { records: await deleteExpired(env.PETS_DB, nowMs) });
  }
}
