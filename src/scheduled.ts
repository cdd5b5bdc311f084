// What the cron trigger does. Nothing depends on its running, but for the size of a table.

import { logRun } from "./http/log.ts";
import { forgetOldCreations } from "./pets/idempotency.ts";

/** Forgets creations that are no longer honoured, and says how many. Throws DatabaseUnavailable; the next run goes on. */
export async function scheduled(_controller: ScheduledController, env: Env): Promise<void> {
  logRun("creations_forgotten", { creations: await forgetOldCreations(env.DB, Date.now()) });
}
