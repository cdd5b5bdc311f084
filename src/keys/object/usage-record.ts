// Records the totals of a key's days in the keys database, where operators see those of all keys. The object's alarm does so: at most
// once in ten minutes unless an alert is due, and for each day with a change since.

import { writeIdempotent } from "../../d1/statements.ts";
import { formatDate } from "../../lib/rfc3339.ts";
import type { DayTotals } from "../protocol.ts";
import { daysOf, type Totals } from "./totals.ts";

/** The least time between two attempts, so that a database that fails gets no more of them. Longer: fewer writes; shorter: more recent figures. */
export const USAGE_EVERY_MS = 600_000;
/** From the first change on. Longer: a burst is recorded once; shorter: a key's first requests show earlier. */
const USAGE_DELAY_MS = 60_000;

/** What the alarm has still to record. */
export interface Unrecorded {
  /** The beginnings of the days that have changed since they were recorded (Unix time). */
  days: readonly number[];
  /** When they are due, or when the next record may be (Unix time). */
  dueMs: number;
}

export const NOTHING_UNRECORDED: Unrecorded = { days: [], dueMs: 0 };

/** After the totals have changed. */
export function afterChange(
  { days, dueMs }: Unrecorded,
  before: Totals,
  after: Totals,
  nowMs: number,
): Unrecorded {
  // On a new day all days are due, because a restore of the database may have lost some.
  const isNewDay = !before.days.some(({ startMs }) => startMs === after.days.at(-1)?.startMs);
  const due = isNewDay ? after.days.map(({ startMs }) => startMs) : changedDays(before, after);
  const changed = due.filter((each) => !days.includes(each));
  // A day that the totals have forgotten can't be recorded.
  const kept = days.filter((each) => after.days.some(({ startMs }) => startMs === each));
  const nextMs = days.length > 0 ? dueMs : Math.max(dueMs, nowMs + USAGE_DELAY_MS);
  // The bound is for a clock that has stepped back.
  return { days: [...kept, ...changed], dueMs: Math.min(nextMs, nowMs + USAGE_EVERY_MS) };
}

/** After the totals `recorded` were recorded, which have become `current` meanwhile. `openDays` are to be recorded again. */
export function afterRecord(
  { days }: Unrecorded,
  recorded: Totals,
  current: Totals,
  openDays: readonly DayTotals[],
  nowMs: number,
): Unrecorded {
  const changed = [...changedDays(recorded, current), ...openDays.map(({ startMs }) => startMs)];
  return { days: days.filter((each) => changed.includes(each)), dueMs: nowMs + USAGE_EVERY_MS };
}

export function afterFailure({ days }: Unrecorded, nowMs: number): Unrecorded {
  return { days, dueMs: nowMs + USAGE_EVERY_MS };
}

/** The days that differ: each change makes a new object. */
function changedDays(before: Totals, after: Totals): number[] {
  return after.days.filter((each) => !before.days.includes(each)).map(({ startMs }) => startMs);
}

const COUNTS = [
  "admitted",
  "refused_minute",
  "refused_day",
  "busiest_minute",
  "last_admitted_ms",
  "last_refused_ms",
];
const countsOf = (table: string) => COUNTS.map((column) => `${table}.${column}`).join(", ");

/**
 * A row that was written late, by an object that has crashed since, does not replace a newer one. An unchanged row is not written, because
 * that costs as much as a change.
 */
const UPSERT_USAGE = `
  INSERT INTO key_usage (key_id, object, revision, day, ${COUNTS.join(", ")})
  SELECT ?1, ?2, ?3, value ->> 'day', value ->> 'admitted', value ->> 'refusedByMinute', value ->> 'refusedByDay',
    value ->> 'busiestMinute', nullif(value ->> 'lastAdmittedMs', 0), nullif(value ->> 'lastRefusedMs', 0)
  FROM json_each(?4) WHERE true
  ON CONFLICT DO UPDATE SET (revision, ${COUNTS.join(", ")}) = (excluded.revision, ${countsOf("excluded")})
  WHERE excluded.revision > key_usage.revision AND (${countsOf("excluded")}) IS NOT (${countsOf("key_usage")})`;

/** A key and its object, which in each preview is another one. */
export type Counter = { keyId: string; object: string };

/** Records days of these totals, as of a revision of the quota. Idempotent. Throws DatabaseUnavailable. */
export async function recordUsage(
  database: D1Database,
  { keyId, object }: Counter,
  revision: number,
  totals: Totals,
  days: readonly number[],
): Promise<void> {
  const rows = daysOf(totals)
    .filter(({ startMs }) => days.includes(startMs))
    .map((each) => ({ ...each, day: formatDate(each.startMs) }));
  const statement = database.prepare(UPSERT_USAGE);
  await writeIdempotent(() => statement.bind(keyId, object, revision, JSON.stringify(rows)).run());
}
