// What operators read about the requests of keys: totals by key, and by day, from the rows that the objects of the keys write. A key
// that was deleted keeps its rows. All times are Unix time in milliseconds, days are UTC days such as `2026-11-20`.

import { deleteInSteps } from "../d1/delete-in-steps.ts";
import { read, writeIdempotent } from "../d1/statements.ts";
import {
  forEachWindow,
  type Limits,
  PLAN_LIMITS,
  SHORT_WINDOWS,
  WINDOW_NAMES,
  WINDOWS,
  type WindowName,
} from "../keys/plans.ts";
import { limitsOfRow } from "../keys/store.ts";
import { LARGEST_PLAN, smallestPlan } from "../keys/usage/demand.ts";
import { formatDate } from "../lib/rfc3339.ts";
import { DAY_MS } from "../limits/index.ts";
import { readByName } from "./names.ts";
import type { ListedKey } from "./records.ts";

/** How long rows are kept. Longer: a larger table; shorter: no comparison with the same month of the last year. */
export const USAGE_KEPT_DAYS = 400;

/** The percentages of a day's limit that the log has alerts of. */
const ALERTS = [80, 100] as const;
/** How long after its end a day has alerts. Longer: after a change of plan, alerts by a limit that the day did not have; shorter: late rows have none. */
const ALERTED_LATE_MS = 3_600_000;

/** Rows that are read at once: few enough for one answer of D1, however long names are. */
const KEY_DAYS_AT_ONCE = 5_000;

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

/** What is known of a key: null if it does not exist. */
interface UsedKey {
  id: string;
  name: string | null;
  ref: string | null;
  note: string | null;
  plan: string | null;
}

export interface KeyUsage extends Requests, UsedKey {
  /** Those that the key has now; null if it has none. */
  limits: Limits | null;
  /** The largest share of the limit per day that the key used on one of the days; null without such a limit. */
  share: number | null;
  /** On how many days the limit of a window was used up. */
  daysAtLimit: Record<WindowName, number>;
  /** The most requests that were sent in one window, of each. */
  sent: Limits;
  /** The key's plan if these requests did not use up its limits; else the smallest whose limits they would not have; null without limits. */
  enough: string | null;
}

export type DayUsage = Requests & { date: string };

/** `usedUp`: the windows whose limit, as it is now, was used up. */
export type MarkedDayUsage = DayUsage & { usedUp: WindowName[] };

/** The requests of one key on one day. */
export type KeyDayUsage = DayUsage & UsedKey;

/** SQL of a JSON object by window. */
const byWindow = (names: WindowName[], sql: (name: WindowName) => string) =>
  `json_object(${names.map((name) => `'${name}', ${sql(name)}`)})`;
const refusedBy = (name: WindowName) => `total(refused_by ->> '${name}')`;

const REQUESTS = `
  total(admitted) AS admitted, ${WINDOW_NAMES.map(refusedBy).join(" + ")} AS refused, ${byWindow(WINDOW_NAMES, refusedBy)} AS refusedBy,
  ${byWindow(SHORT_WINDOWS, (name) => `max(busiest ->> '${name}')`)} AS busiest, max(last_admitted_ms) AS lastAdmittedMs, max(last_refused_ms) AS lastRefusedMs`;

/** The limit that the key has now. */
const limitOf = (name: WindowName) =>
  `CASE plan ${Object.entries(PLAN_LIMITS)
    .map(([plan, limits]) => `WHEN '${plan}' THEN ${limits?.[name] ?? `limits ->> '${name}'`}`)
    .join(" ")} END`;

const REFUSED = WINDOW_NAMES.map((name) => `ifnull(refused_by ->> '${name}', 0)`).join(" + ");

/** The requests of a window that is no shorter than a day, up to the row's day. As `inLongWindow` of src/keys/usage/demand.ts. */
const inLongWindow = (name: WindowName, requests: string) =>
  WINDOWS[name] * 1000 === DAY_MS
    ? requests
    : `sum(${requests}) OVER (PARTITION BY key_id, object, unixepoch(day) / ${WINDOWS[name]} ORDER BY day)`;
const isShort = (name: WindowName) => SHORT_WINDOWS.includes(name);
/** The most requests that used up a window on the row's day. As `markedDays`. */
const usedSql = (name: WindowName) =>
  isShort(name)
    ? `(busiest ->> '${name}') - iif(ifnull(refused_by ->> '${name}', 0) = 0, ${REFUSED}, 0)`
    : inLongWindow(name, "admitted");
/** The most requests that were sent in a window on the row's day. As `mostSent`. */
const sentSql = (name: WindowName) =>
  isShort(name) ? `busiest ->> '${name}'` : inLongWindow(name, `admitted + ${REFUSED}`);

const ORDERS = {
  admitted: "admitted DESC",
  refused: "refused DESC",
  share: "share DESC",
  "at-limit": "daysAtAnyLimit DESC, admitted DESC",
  "last-used": "max(ifnull(lastAdmittedMs, 0), ifnull(lastRefusedMs, 0)) DESC",
  name: "name IS NULL, folded_name, name",
};

type UsageOrder = keyof typeof ORDERS;
export const USAGE_ORDERS = Object.keys(ORDERS) as UsageOrder[];

const isAtLimit = (name: WindowName) => `used_${name} >= limit_${name}`;
const daysWith = (condition: string) => `count(DISTINCT iif(${condition}, day, NULL))`;

/** The rows of some days with what they are compared by. Each preview has limits of its own, so shares and used-up limits are those of a row. */
const compared = (where: string) => `
  WITH limited AS (
    SELECT id AS key_id, ${WINDOW_NAMES.map((name) => `${limitOf(name)} AS limit_${name}`)} FROM keys
  ), rows AS (
    SELECT *, ${WINDOW_NAMES.map((name) => `${usedSql(name)} AS used_${name}, ${sentSql(name)} AS sent_${name}`)}
    FROM key_usage WHERE ${where}
  )`;

const listUsed = (sort: UsageOrder) => `
  ${compared("day BETWEEN ?1 AND ?2")}, used AS (
    SELECT key_id AS id, ${REQUESTS}, max(admitted) AS most,
      ${byWindow(WINDOW_NAMES, (name) => `max(sent_${name})`)} AS sent,
      ${byWindow(WINDOW_NAMES, (name) => daysWith(isAtLimit(name)))} AS daysAtLimit,
      ${daysWith(WINDOW_NAMES.map(isAtLimit).join(" OR "))} AS daysAtAnyLimit
    FROM rows LEFT JOIN limited USING (key_id) GROUP BY key_id
  )
  SELECT used.*, name, ref, note, plan, limits, most * 1.0 / ${limitOf("day")} AS share, count(*) OVER () AS total
  FROM used LEFT JOIN keys USING (id) WHERE ?4 = 0 OR daysAtAnyLimit > 0 ORDER BY ${ORDERS[sort]}, id LIMIT ?3`;

/** Rows of previews together. */
const SELECT_KEY_DAYS = `
  SELECT day AS date, key_id AS id, name, ref, note, plan, ${REQUESTS} FROM key_usage LEFT JOIN keys ON keys.id = key_id
  WHERE day <= ?1 AND (day, key_id) > (?2, ?3) GROUP BY day, key_id ORDER BY day, key_id LIMIT ?4`;

/** ?1: the id, ?2: the days. */
const SELECT_DAYS = `
  ${compared("key_id = ?1 AND day IN (SELECT value FROM json_each(?2))")}
  SELECT value AS date, ${REQUESTS}, ${byWindow(WINDOW_NAMES, (name) => `max(ifnull(${isAtLimit(name)}, 0))`)} AS usedUp
  FROM json_each(?2) LEFT JOIN (rows LEFT JOIN limited USING (key_id)) ON day = value GROUP BY value ORDER BY value`;
const SELECT_TOTALS = `
  SELECT value AS date, ${REQUESTS} FROM json_each(?1) LEFT JOIN key_usage ON day = value GROUP BY value ORDER BY value`;
const SELECT_DAYS_OF = `
  SELECT key_id AS id, day AS date, ${REQUESTS} FROM key_usage
  WHERE day IN (SELECT value FROM json_each(?2)) AND key_id IN (SELECT value FROM json_each(?1))
  GROUP BY key_id, day`;

/** Days of which an alert is due. A key that was deleted has no limit. */
const SELECT_ALERTS = `
  SELECT * FROM (
    SELECT day, key_id AS keyId, object, admitted, alerted, (SELECT ${limitOf("day")} FROM keys WHERE id = key_id) AS "limit"
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

interface UsageQuery {
  days: number;
  sort: UsageOrder;
  /** -1 for all. */
  limit: number;
  /** Only keys that used up a limit. */
  isAtLimit?: boolean;
}

/** The keys that were used on the last days, and how many they are. */
export async function listUsage(
  database: D1Database,
  nowMs: number,
  { days, sort, limit, isAtLimit = false }: UsageQuery,
) {
  const first = dayOf(nowMs, days - 1);
  const statement = database.prepare(listUsed(sort)).bind(first, dayOf(nowMs), limit, Number(isAtLimit));
  type Row = InJson<Requests & UsedKey & Pick<KeyUsage, "share">> &
    Record<"sent" | "daysAtLimit", string> & { plan: string; limits: string | null; total: number };
  const { results } = await (sort === "name"
    ? readByName<Row>(database, statement)
    : read(() => statement.all<Row>()));
  const keys = results.map((row): KeyUsage => {
    const { id, name, ref, note, plan, share } = row;
    const limits = limitsOfRow(row) ?? null;
    const sent: Limits = JSON.parse(row.sent);
    const { admitted, refusedBy, busiest, lastAdmittedMs, lastRefusedMs } = fromJson<Requests>(row);
    const requests = { admitted, refusedBy, busiest, lastAdmittedMs, lastRefusedMs };
    const daysAtLimit: KeyUsage["daysAtLimit"] = JSON.parse(row.daysAtLimit);
    const isEnough = Object.values(daysAtLimit).every((count) => count === 0);
    const enough = limits && (isEnough ? plan : (smallestPlan(sent) ?? LARGEST_PLAN));
    return { id, name, ref, note, plan, limits, ...requests, share, daysAtLimit, sent, enough };
  });
  return { keys, total: results[0]?.total ?? 0 };
}

/** A key without requests. */
export function unusedKey({ id, name, ref, note, plan, ...key }: ListedKey): KeyUsage {
  const limits = key.limits ?? null;
  const none = forEachWindow(() => 0);
  const busiest = Object.fromEntries(SHORT_WINDOWS.map((window) => [window, null]));
  const requests = { admitted: 0, refusedBy: none, busiest, lastAdmittedMs: null, lastRefusedMs: null };
  const enough = limits === null ? null : plan;
  const figures = { share: limits && 0, daysAtLimit: none, sent: none, enough };
  return { id, name, ref, note, plan, limits, ...requests, ...figures };
}

/** Each day of each key that was used on the last days, in the order of days. Pages, none of them empty. */
export async function* readKeyDays(
  database: D1Database,
  nowMs: number,
  days: number,
): AsyncGenerator<KeyDayUsage[]> {
  const statement = database.prepare(SELECT_KEY_DAYS);
  let after = [dayOf(nowMs, days), "~"];
  for (;;) {
    const page = statement.bind(dayOf(nowMs), ...after, KEY_DAYS_AT_ONCE);
    const { results } = await read(() => page.all<InJson<KeyDayUsage>>());
    if (results.length > 0) yield results.map((row) => fromJson<KeyDayUsage>(row));
    const { date, id } = results.at(-1) ?? {};
    if (results.length < KEY_DAYS_AT_ONCE || date === undefined || id === undefined) return;
    after = [date, id];
  }
}

/** A day as the page /usage gets it. */
export function asOfPage<Day extends DayUsage>(day: Day) {
  const busiest = Object.entries(day.busiest).map(([name, count]) => [name, count ?? 0] as const);
  return { ...day, busiest: Object.fromEntries(busiest) as Record<string, number> };
}

/** The last days of a key up to today, the oldest first, also those without requests. One that was deleted has used up no limit. */
export async function listDays(
  database: D1Database,
  id: string,
  nowMs: number,
  days: number,
): Promise<MarkedDayUsage[]> {
  const statement = database.prepare(SELECT_DAYS).bind(id, JSON.stringify(datesOf(nowMs, days)));
  const { results } = await read(() => statement.all<InJson<DayUsage> & { usedUp: string }>());
  return results.map(({ usedUp, ...row }) => {
    const isUsedUp: Record<WindowName, number> = JSON.parse(usedUp);
    return { ...fromJson<DayUsage>(row), usedUp: WINDOW_NAMES.filter((name) => isUsedUp[name] > 0) };
  });
}

/** The last days up to today, of all keys together, the oldest first, also those without requests. */
export async function listTotals(database: D1Database, nowMs: number, days: number): Promise<DayUsage[]> {
  const statement = database.prepare(SELECT_TOTALS).bind(JSON.stringify(datesOf(nowMs, days)));
  const { results } = await read(() => statement.all<InJson<DayUsage>>());
  return results.map((row) => fromJson<DayUsage>(row));
}

/** The last days up to today of some keys, by their ids, the oldest first, also those without requests. */
export async function listDaysOf(
  database: D1Database,
  ids: string[],
  nowMs: number,
  days: number,
): Promise<Map<string, DayUsage[]>> {
  const dates = datesOf(nowMs, days).toReversed();
  const statement = database.prepare(SELECT_DAYS_OF).bind(JSON.stringify(ids), JSON.stringify(dates));
  const { results } = await read(() => statement.all<InJson<DayUsage> & { id: string }>());
  const found = Map.groupBy(results, ({ id }) => id);
  const none = { admitted: 0, refusedBy: forEachWindow(() => 0), busiest: {} };
  const daysOf = (id: string) => {
    const byDate = new Map(found.get(id)?.map(({ id: _, ...row }) => [row.date, fromJson<DayUsage>(row)]));
    return dates.map(
      (date) => byDate.get(date) ?? { date, ...none, lastAdmittedMs: null, lastRefusedMs: null },
    );
  };
  return new Map(ids.map((id) => [id, daysOf(id)]));
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

/** The last UTC days, today first. */
function datesOf(nowMs: number, days: number): string[] {
  return Array.from({ length: days }, (_, before) => dayOf(nowMs, before));
}

/** The UTC day of `nowMs`, or one before it. */
function dayOf(nowMs: number, daysBefore = 0): string {
  return formatDate(nowMs - daysBefore * DAY_MS);
}
