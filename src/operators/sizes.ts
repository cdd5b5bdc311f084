// The size of each database on each UTC day, in the keys database, as the cron trigger has measured it once a day. Any answer of D1 has the
// size of its database, so a measurement reads no row. If the trigger does not run, or a database fails all day, that day is missing.

import { read, writeIdempotent } from "../d1/statements.ts";
import { formatDate } from "../lib/rfc3339.ts";
import { DAY_MS } from "../limits/index.ts";
import { USAGE_KEPT_DAYS } from "./usage.ts";

const SELECT_RECORDED = "SELECT contents FROM database_sizes WHERE day = ?1";
const MEASURE = "SELECT 1";
const RECORD =
  "INSERT INTO database_sizes (day, contents, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (day, contents) DO NOTHING";
/** Two rows a day: unlike those of usage, they need no steps. */
const DELETE_OLD = "DELETE FROM database_sizes WHERE day < ?1";
const SELECT_SINCE = "SELECT day, contents, bytes FROM database_sizes WHERE day >= ?1 ORDER BY day";

/** `bytes` of the database of `contents`, at the first measurement of the day. */
export interface RecordedSize {
  day: string;
  contents: string;
  bytes: number;
}

/**
 * Records the size of each database, by what it contains, that has none of today, and deletes what is older than USAGE_KEPT_DAYS. Throws
 * after all are tried if one can't be measured; the next run tries again.
 */
export async function recordSizes(
  keys: D1Database,
  databases: Record<string, D1Database>,
  nowMs: number,
): Promise<void> {
  const today = formatDate(nowMs);
  const { results } = await read(() => keys.prepare(SELECT_RECORDED).bind(today).all<{ contents: string }>());
  const missing = Object.entries(databases).filter(
    ([contents]) => !results.some((recorded) => recorded.contents === contents),
  );
  const record = async ([contents, database]: [string, D1Database]) => {
    const { meta } = await read(() => database.prepare(MEASURE).all());
    await writeIdempotent(() => keys.prepare(RECORD).bind(today, contents, meta.size_after).run());
  };
  if (missing.length === 0) return;
  const recorded = await Promise.allSettled(missing.map(record));
  const oldest = formatDate(nowMs - USAGE_KEPT_DAYS * DAY_MS);
  await writeIdempotent(() => keys.prepare(DELETE_OLD).bind(oldest).run());
  for (const each of recorded) if (each.status === "rejected") throw each.reason;
}

/** The sizes of the last `days` UTC days up to today, the oldest first. */
export async function listSizes(keys: D1Database, nowMs: number, days: number): Promise<RecordedSize[]> {
  const first = formatDate(nowMs - (days - 1) * DAY_MS);
  const { results } = await read(() => keys.prepare(SELECT_SINCE).bind(first).all<RecordedSize>());
  return results;
}
