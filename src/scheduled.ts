// The cron trigger. Only alerts of quotas and the sizes of tables and databases depend on it.

import { logRun } from "./http/log.ts";
import { recordSizes } from "./operators/sizes.ts";
import { deleteOldUsage, takeAlerts } from "./operators/usage.ts";
import { deleteExpired } from "./pets/idempotency.ts";

/**
 * Logs alerts of quotas, deletes old usage of keys and expired idempotency records, and records the sizes of the databases. Throws
 * DatabaseUnavailable; the next run continues.
 */
export async function scheduled(_controller: ScheduledController, env: Env): Promise<void> {
  const { KEYS_DB, PETS_DB } = env;
  const nowMs = Date.now();
  const ofUsage = async () => {
    await takeAlerts(KEYS_DB, nowMs, (alert) => logRun("quota_alert", alert));
    logRun("usage_rows_deleted", { rows: await deleteOldUsage(KEYS_DB, nowMs) });
  };
  const ofPets = async () =>
    logRun("idempotency_records_deleted", { records: await deleteExpired(PETS_DB, nowMs) });
  const ofSizes = () => recordSizes(KEYS_DB, { keys: KEYS_DB, pets: PETS_DB }, nowMs);
  const failures: unknown[] = [];
  // One database may work while the other does not.
  for (const work of [ofUsage, ofPets, ofSizes]) await work().catch((error) => failures.push(error));
  if (failures.length > 0) throw failures[0];
}
