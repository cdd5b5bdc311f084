// What operators read about the requests of keys: totals by key, and by day, from the rows that the objects of the keys write. A key
// that was deleted keeps its rows. All times are Unix time in milliseconds, days are UTC days such as `2026-11-20`.

import { deleteInSteps } from "../d1/delete-in-steps.ts";
import { read, writeIdempotent } from "../d1/statements.ts";
import { PLAN_LIMITS, SHORT_WINDOWS, WINDOW_NAMES, type WindowName } from "../keys/plans.ts";
import { formatDate } from "../lib/rfc3339.ts";
import { DAY_MS } from "../limits/index.ts";
import { readByName } from "./names.ts";

/** How long rows are kept. Longer: a larger table; shorter: no comparison with the same month of the last year. */
export const USAGE_KEPT_DAYS = 400;

/** The percentages of a day's limit that the log has alerts of. */
const ALERTS = [80, 100] as const;
/** How long after its end a day has alerts. Longer: after a change of plan, alerts by a limit that the day did not have; shorter: late rows have none. */
const ALERTED_LATE_MS = 3_600_000;

/** Requests in a time. A correction can make a count negative. */
export interface Requests {
  admitted: number;
  /** Refused because the limit of this window was used up. */
  refusedBy: Record<WindowName, number>;
  /** The most requests in one window that is shorter than a day; null without requests. */
  busiest: Record<string, number | null>;
  lastAdmittedMs: number | null;
  lastRefusedMs: number | null;
}

/** Name and plan are null if the key does not exist. `share` is null for a key without a limit per day. */
export interface KeyUsage extends Requests {
  id: string;
  name: string | null;
  plan: string | null;
  share: number | null;
}

export type DayUsage = Requests & { date: string };

/** SQL of a JSON object by window. */
const byWindow = (names: WindowName[], sql: (name: WindowName) => string) =>
  `json_object(${names.map((name) => `'${name}', ${sql(name)}`)})`;
const refusedBy = (name: WindowName) => `total(refused_by ->> '${name}')`;

const REQUESTS = `
  total(admitted) AS admitted, ${WINDOW_NAMES.map(refusedBy).join(" + ")} AS refused, ${byWindow(WINDOW_NAMES, refusedBy)} AS refusedBy,
  ${byWindow(SHORT_WINDOWS, (name) => `max(busiest ->> '${name}')`)} AS busiest, max(last_admitted_ms) AS lastAdmittedMs, max(last_refused_ms) AS lastRefusedMs`;

/** The limit per day that the key has now. */
const DAY_LIMIT = `CASE plan ${Object.entries(PLAN_LIMITS)
  .map(([plan, limits]) => `WHEN '${plan}' THEN ${limits?.day ?? "limits ->> 'day'"}`)
  .join(" ")} END`;

const ORDERS = {
  admitted: "admitted DESC",
  refused: "refused DESC",
  share: "share DESC",
  "last-used": "max(ifnull(lastAdmittedMs, 0), ifnull(lastRefusedMs, 0)) DESC",
  name: "name IS NULL, folded_name, name",
};

type UsageOrder = keyof typeof ORDERS;
export const USAGE_ORDERS = Object.keys(ORDERS) as UsageOrder[];

// Each preview has limits of its own, so a share is that of one row.
const listUsed = (sort: UsageOrder) => `
  WITH used AS (
    SELECT key_id AS id, ${REQUESTS}, max(admitted) AS most FROM key_usage WHERE day BETWEEN ?1 AND ?2 GROUP BY key_id
  )
  SELECT id, name, plan, used.*, most * 1.0 / ${DAY_LIMIT} AS share, count(*) OVER () AS total
  FROM used LEFT JOIN keys USING (id) ORDER BY ${ORDERS[sort]}, id LIMIT ?3`;

const SELECT_DAYS = `
  SELECT value AS date, ${REQUESTS} FROM json_each(?2) LEFT JOIN key_usage ON day = value AND key_id = ?1 GROUP BY value ORDER BY value`;

const SELECT_UNUSED = `
  WITH asked AS (SELECT id, created_at_ms FROM keys WHERE id IN (SELECT value FROM json_each(?1))), used AS (
    SELECT key_id, max(max(ifnull(last_admitted_ms, 0), ifnull(last_refused_ms, 0))) AS ms FROM key_usage
    WHERE day >= (SELECT date(min(created_at_ms) / 1000, 'unixepoch') FROM asked) AND key_id IN (SELECT id FROM asked)
    GROUP BY key_id
  ), rotated AS (
    SELECT key_id, max(at_ms) AS ms FROM key_changes
    WHERE key_id IN (SELECT id FROM asked) AND change = 'rotated' GROUP BY key_id
  )
  SELECT id FROM asked LEFT JOIN used ON used.key_id = id LEFT JOIN rotated ON rotated.key_id = id
  WHERE used.ms IS NULL OR used.ms < rotated.ms`;

/** Days of which an alert is due. A key that was deleted has no limit. */
const SELECT_ALERTS = `
  SELECT * FROM (
    SELECT day, key_id AS keyId, object, admitted, alerted, (SELECT ${DAY_LIMIT} FROM keys WHERE id = key_id) AS "limit"
    FROM key_usage WHERE day >= ?1
  ) WHERE admitted * 100 >= ?2 * "limit" AND alerted < (CASE WHEN admitted >= "limit" THEN 100 ELSE ?2 END)`;

const UPDATE_ALERTED = `
  UPDATE key_usage SET alerted = value ->> 'percent' FROM json_each(?1)
  WHERE (day, key_id, object) = (value ->> 'day', value ->> 'keyId', value ->> 'object') AND alerted < value ->> 'percent'`;

const DELETE_OLD = `
  DELETE FROM key_usage WHERE (day, key_id, object) IN
  (SELECT day, key_id, object FROM key_usage WHERE day < ?1 ORDER BY day LIMIT ?2)`;

/** A row: its records by window are JSON, and `refused` is their sum. */
type InJson<Used extends Requests> = Omit<Used, "refusedBy" | "busiest"> &
  Record<"refusedBy" | "busiest", string> & { refused: number };

function fromJson<Used extends Requests>({ refused: _, ...row }: InJson<Used>): Used {
  return { ...row, refusedBy: JSON.parse(row.refusedBy), busiest: JSON.parse(row.busiest) } as never;
}

/** The keys that were used on the last days, and how many they are. `limit` is -1 for all. */
export async function listUsage(
  database: D1Database,
  nowMs: number,
  { days, sort, limit }: { days: number; sort: UsageOrder; limit: number },
) {
  const statement = database.prepare(listUsed(sort)).bind(dayOf(nowMs, days - 1), dayOf(nowMs), limit);
  type Row = InJson<KeyUsage> & { most: number; total: number };
  const { results } = await (sort === "name"
    ? readByName<Row>(database, statement)
    : read(() => statement.all<Row>()));
  const keys = results.map(({ most: _, total: __, ...row }) => fromJson<KeyUsage>(row));
  return { keys, total: results[0]?.total ?? 0 };
}

/** The last days of a key up to today, the oldest first, also those without requests. */
export async function listDays(
  database: D1Database,
  id: string,
  nowMs: number,
  days: number,
): Promise<DayUsage[]> {
  const dates = Array.from({ length: days }, (_, before) => dayOf(nowMs, before));
  const statement = database.prepare(SELECT_DAYS).bind(id, JSON.stringify(dates));
  const { results } = await read(() => statement.all<InJson<DayUsage>>());
  return results.map((row) => fromJson<DayUsage>(row));
}

/** Of these keys, those without a recorded request since their secret was made. The last minutes are not recorded yet. */
export async function findUnused(database: D1Database, ids: string[]): Promise<Set<string>> {
  const statement = database.prepare(SELECT_UNUSED).bind(JSON.stringify(ids));
  const { results } = await read(() => statement.all<{ id: string }>());
  return new Set(results.map(({ id }) => id));
}

/**
 * Hands over each percentage of ALERTS that today, or a day that has just ended, has reached of the limit that its key has now, once; again
 * if the database fails right then. What isolates have leased counts as used.
 */
export async function takeAlerts(
  database: D1Database,
  nowMs: number,
  onAlert: (alert: { keyId: string; day: string; percent: number; admitted: number; limit: number }) => void,
): Promise<void> {
  type Row = { keyId: string; object: string; day: string; admitted: number; limit: number; alerted: number };
  const statement = database.prepare(SELECT_ALERTS).bind(dayOf(nowMs - ALERTED_LATE_MS), ALERTS[0]);
  const { results } = await read(() => statement.all<Row>());
  const noted = results.map(({ alerted, object, ...row }) => {
    const reached = ALERTS.filter((percent) => row.admitted * 100 >= percent * row.limit);
    for (const percent of reached) if (percent > alerted) onAlert({ ...row, percent });
    return { ...row, object, percent: reached.at(-1) };
  });
  if (noted.length > 0)
    await writeIdempotent(() => database.prepare(UPDATE_ALERTED).bind(JSON.stringify(noted)).run());
}

/** Deletes rows that are older than USAGE_KEPT_DAYS, at most as many as one run may. Returns their number. */
export function deleteOldUsage(database: D1Database, nowMs: number): Promise<number> {
  return deleteInSteps(database, DELETE_OLD, dayOf(nowMs, USAGE_KEPT_DAYS));
}

/** The UTC day of `nowMs`, or one before it. */
function dayOf(nowMs: number, daysBefore = 0): string {
  return formatDate(nowMs - daysBefore * DAY_MS);
}
