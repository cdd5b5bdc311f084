// What operators read about keys: records with bans and graces, and the record of changes. All times are Unix time in milliseconds.

import { read } from "../d1/statements.ts";
import { BANNED } from "../keys/object/ban-record.ts";
import type { Plan } from "../keys/plans.ts";
import { DAY_MS } from "../keys/protocol.ts";
import type { Key } from "../keys/record.ts";
import { KEY_COLUMNS, limitsOfRow, type Row } from "../keys/store.ts";
import { formatDate } from "../lib/rfc3339.ts";
import type { Limits } from "../rate-limit/windows.ts";
import type { KeyChange } from "./changes.ts";

/** How far back bans are counted. */
export const BANS_COUNTED_DAYS = 30;
/** A key that expires within this time is expiring. */
export const EXPIRING_DAYS = 30;

/** A key as operators see it. They also see, and can change, a key without limits, which the Worker can't use. */
interface ListedRecord extends Omit<Key, "plan" | "limits"> {
  name: string;
  /** Not always a Plan: a later version may have set it. */
  plan: string;
  /** Undefined as in limitsOfRow. */
  limits: Limits | undefined;
  lastFour: string;
  /** The SHA-256 of the current secret (hexadecimal). */
  hash: string;
  createdAtMs: number;
  /** When the last grace of a replaced secret ends; null if none is left. */
  graceUntilMs: number | null;
  /** The end of the recorded ban that is in force. */
  bannedUntilMs: number | null;
  /** How many bans began in the last BANS_COUNTED_DAYS. */
  bans: number;
}

/** A change of a key, or a ban. Values are texts. */
export interface ChangeRecord {
  atMs: number;
  keyId: string;
  name: string;
  change: KeyChange;
  from: string | null;
  to: string | null;
  by: string;
}

const IDS = "(SELECT value FROM json_each(?2))";

/** The records, of some keys if `hasIds`. ?1: now, ?2: their ids, as a JSON array. */
const records = (hasIds: boolean) => `
  WITH ban AS (
    SELECT key_id, count(*) AS bans, max(unixepoch(to_value)) * 1000 AS ms FROM key_changes INDEXED BY bans
    WHERE change = '${BANNED}' AND at_ms > ?1 - ${BANS_COUNTED_DAYS * DAY_MS} AND ${hasIds ? `key_id IN ${IDS}` : "?2 IS NULL"}
    GROUP BY key_id
  ), grace AS (
    SELECT key_id, max(good_until_ms) AS ms FROM replaced_secrets
    WHERE good_until_ms > ?1 ${hasIds ? `AND key_id IN ${IDS}` : ""} GROUP BY key_id
  ), record AS (
    SELECT ${KEY_COLUMNS}, name, last_four AS lastFour, lower(hex(hash)) AS hash, created_at_ms AS createdAtMs, grace.ms AS graceUntilMs,
      iif(ban.ms > max(?1, coalesce(bans_lifted_until_ms, 0)), ban.ms, NULL) AS bannedUntilMs, coalesce(bans, 0) AS bans
    FROM keys LEFT JOIN ban ON ban.key_id = id LEFT JOIN grace ON grace.key_id = id ${hasIds ? `WHERE id IN ${IDS}` : ""}
  )`;

const ENDED = "(revokedAtMs IS NOT NULL OR ifnull(expiresAtMs <= ?1, 0))";

/** The SQL of each state. A key can be in several: an active one may be expiring. ?1: now. */
const STATES = {
  active: `NOT ${ENDED} AND suspendedAtMs IS NULL AND bannedUntilMs IS NULL`,
  suspended: "revokedAtMs IS NULL AND suspendedAtMs IS NOT NULL",
  banned: `NOT ${ENDED} AND bannedUntilMs IS NOT NULL`,
  expiring: `NOT ${ENDED} AND expiresAtMs <= ?1 + ${EXPIRING_DAYS * DAY_MS}`,
  "in-grace": `NOT ${ENDED} AND graceUntilMs IS NOT NULL`,
  expired: `revokedAtMs IS NULL AND ${ENDED}`,
  revoked: "revokedAtMs IS NOT NULL",
};

type ListState = keyof typeof STATES;
export const LIST_STATES = Object.keys(STATES) as ListState[];

const ORDERS = {
  created: "createdAtMs DESC, id",
  name: "name COLLATE NOCASE, id",
  expires: "expiresAtMs IS NULL, expiresAtMs, id",
  bans: "bans DESC, createdAtMs DESC, id",
};

export const LIST_ORDERS = Object.keys(ORDERS) as (keyof typeof ORDERS)[];

interface ListQuery {
  ids?: string[];
  /** A part of the name (ignoring case in ASCII) or of the id, or the last four characters of a secret, also a replaced one. */
  search?: string | undefined;
  plan?: Plan | undefined;
  state?: ListState | undefined;
  /** Only keys that exist for so many days, and had no request on them. */
  unusedDays?: number | undefined;
  sort?: keyof typeof ORDERS | undefined;
  /** -1 for all. */
  limit?: number | undefined;
  offset?: number | undefined;
}

/** The SQL of keys that were made before, and have not been used since. Usage is by day, so it begins with the next one. */
function unusedSince(sinceMs: number): string {
  const used = `SELECT key_id FROM key_usage WHERE day > '${formatDate(sinceMs)}'`;
  return `createdAtMs <= ${sinceMs} AND id NOT IN (${used})`;
}

type Selected = Row<ListedRecord> & { states: string; total: number };

/** A statement that selects a page of keys, with the states of each. Reads as of `nowMs`. */
export function selectKeys(database: D1Database, nowMs: number, query: ListQuery): D1PreparedStatement {
  const { ids, search = null, plan = null, state, sort = "created", limit = -1, offset = 0 } = query;
  const unused = query.unusedDays === undefined ? "true" : unusedSince(nowMs - query.unusedDays * DAY_MS);
  const states = LIST_STATES.map((name) => `iif(${STATES[name]}, '${name}', NULL)`);
  const sql = `${records(ids !== undefined)}
    SELECT *, concat_ws(' ', ${states.join(", ")}) AS states, count(*) OVER () AS total FROM record
    WHERE (?3 IS NULL OR instr(lower(name), lower(?3)) > 0 OR instr(id, ?3) > 0 OR lastFour = ?3
        OR id IN (SELECT key_id FROM replaced_secrets WHERE last_four = ?3))
      AND (?4 IS NULL OR plan = ?4) AND ${state === undefined ? "true" : STATES[state]} AND ${unused}
    ORDER BY ${ORDERS[sort]} LIMIT ?5 OFFSET ?6`;
  const idsJson = ids === undefined ? null : JSON.stringify(ids);
  return database.prepare(sql).bind(nowMs, idsJson, search, plan, limit, offset);
}

/** The keys that `selectKeys` has selected, and how many keys match. */
export function listedKeys({ results }: D1Result) {
  const rows = results as Selected[];
  const keys = rows.map(({ states, total: _, perMinute, perDay, ...key }) => ({
    ...key,
    limits: limitsOfRow({ plan: key.plan, perMinute, perDay }),
    states: states.split(" ") as ListState[],
  }));
  return { keys, total: rows[0]?.total ?? 0 };
}

export async function listKeys(database: D1Database, nowMs: number, query: ListQuery = {}) {
  return listedKeys(await read(() => selectKeys(database, nowMs, query).all()));
}

/** How many keys there are, and how many in each state. Reads as of `nowMs`. */
export async function countKeys(database: D1Database, nowMs: number) {
  const counts = LIST_STATES.map((name) => `total(${STATES[name]}) AS "${name}"`);
  const statement = database.prepare(`${records(false)} SELECT count(*) AS total, ${counts} FROM record`);
  const row = await read(() => statement.bind(nowMs, null).first<Record<ListState | "total", number>>());
  const { total = 0, ...states } = row ?? {};
  return { total, states };
}

export type ListedKey = Awaited<ReturnType<typeof listKeys>>["keys"][number];

/** What tells an operator whose key it is. */
export type KeyOwner = Pick<ListedKey, "id" | "name" | "lastFour" | "createdAtMs">;

/** A key in any state. */
export async function findKeyById(
  database: D1Database,
  id: string,
  nowMs: number,
): Promise<ListedKey | undefined> {
  return (await listKeys(database, nowMs, { ids: [id] })).keys[0];
}

/** When the graces of a key's replaced secrets end, the last first. */
export async function findGraces(database: D1Database, id: string, nowMs: number): Promise<number[]> {
  const sql =
    "SELECT good_until_ms AS ms FROM replaced_secrets WHERE key_id = ?1 AND good_until_ms > ?2 ORDER BY 1 DESC";
  const { results } = await read(() => database.prepare(sql).bind(id, nowMs).all<{ ms: number }>());
  return results.map(({ ms }) => ms);
}

/** When the grace of a replaced secret ends or ended; undefined if the key has replaced no such secret. */
export async function findGraceEnd(
  database: D1Database,
  id: string,
  hash: string,
): Promise<number | undefined> {
  const sql = "SELECT good_until_ms AS ms FROM replaced_secrets WHERE key_id = ?1 AND hash = unhex(?2)";
  const row = await read(() => database.prepare(sql).bind(id, hash).first<{ ms: number }>());
  return row?.ms;
}

/** The latest changes of a key, or of all keys, in the order in which they were made, the latest first. */
export async function listChanges(
  database: D1Database,
  id: string | undefined,
  limit: number,
): Promise<ChangeRecord[]> {
  const sql = `
    SELECT at_ms AS atMs, key_id AS keyId, coalesce(name, '') AS name, change, from_value AS "from", to_value AS "to",
      changed_by AS "by"
    FROM key_changes LEFT JOIN keys ON keys.id = key_id
    ${id === undefined ? "WHERE ?1 IS NULL" : "WHERE key_id = ?1"} ORDER BY key_changes.id DESC LIMIT ?2`;
  const statement = database.prepare(sql).bind(id ?? null, limit);
  return (await read(() => statement.all<ChangeRecord>())).results;
}
