// Gives keys a history: writes totals of earlier days into the stored state of their objects, in the format of
// src/rate-limit/object/rate-limiter.ts.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { deserialize, serialize } from "node:v8";
import type { Quota } from "../../../src/rate-limit/object/quota.ts";
import { DAY_MS } from "../../../src/rate-limit/protocol.ts";
import { startOfWindowMs } from "../../../src/rate-limit/windows.ts";
import type { Service } from "./petstore.ts";

/**
 * Sets the past days of every object that has stored a quota. The first of `days` is yesterday. It kills the runtime, because
 * objects read their storage only when they start.
 */
export async function writePastDays(
  service: Service,
  state: string,
  days: { admitted: number; refused: number }[],
  nowMs: number,
): Promise<void> {
  await service.killRuntime();
  const today = startOfWindowMs("day", nowMs);
  const pastDays = days.map((day, index) => ({ startMs: today - (index + 1) * DAY_MS, ...day })).reverse();
  const folder = join(state, "v3/do/petstore-RateLimiter");
  for (const file of readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name))) {
    const database = new DatabaseSync(join(folder, file));
    const isUsed = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = '_cf_KV'").get() !== undefined;
    const row = isUsed && database.prepare("SELECT value FROM _cf_KV WHERE key = 'quota-2'").get();
    if (row) {
      const quota: Quota = { ...deserialize(row.value as Uint8Array), pastDays };
      database.prepare("UPDATE _cf_KV SET value = ? WHERE key = 'quota-2'").run(serialize(quota));
    }
    database.close();
  }
}
