// What operators read about keys: records with bans and graces, and the record of changes. All times are Unix time in milliseconds.

import { read } from "../d1/statements.ts";
import type { KeyFields } from "../keys/key.ts";
import type { Limits, Plan } from "../keys/plans.ts";
import { BANNED } from "../keys/reports.ts";
import { KEY_COLUMNS, limitsOfRow, type Row } from "../keys/store.ts";
import { formatDate } from "../lib/rfc3339.ts";
import { DAY_MS } from "../limits/index.ts";
import { type KeyChange, SUSPENSION_REASON } from "./changes.ts";
import { foldName, readByName } from "./names.ts";

/** How far back bans are counted. */
export const BANS_COUNTED_DAYS = 30;
/** A key that expires within this time is expiring. */
export const EXPIRING_DAYS = 30;

/** A key as operators see it. They also see, and can change, a key without limits, which the Worker can't use. */
interface ListedRecord extends Omit<KeyFields, "plan" | "limits"> {
  name: string;
  /** The id of the customer in the operator's own system. */
  ref: string | null;
  note: string | null;
  /** Not always a Plan: a later version may have set it. */
  plan: string;
  /** Undefined as in limitsOfRow. */
  limits: Limits | undefined;
  lastFour: string;
  /** The SHA-256 of the current secret (hexadecimal). */
  hash: string;
  createdAtMs: number;
  /** Why it is suspended; null if it is not, and if a full database could not record it. */
  suspensionReason: string | null;
  /** When the last grace of a replaced secret ends; null if none is left. */
  graceUntilMs: number | null;
  /** The end of the recorded ban that is in force. */
  bannedUntilMs: number | null;
  /** How many bans began in the last BANS_COUNTED_DAYS. */
  bans: number;
  /** The last four characters of a replaced secret, if the search is for them. */
  foundReplaced: string | null;
}

/** A change of a key, or a ban. Values are texts. */
export interface ChangeRecord {
  atMs: number;
  id: string;
  name: string;
  change: KeyChange;
  from: string | null;
  to: string | null;
  by: string;
}

/** SQL of the ids of some keys. ?2: their ids, or their names in the form in which they are compared, as a JSON array. */
const IDS = {
  ids: "(SELECT value FROM json_each(?2))",
  names: "(SELECT id FROM keys WHERE folded_name IN (SELECT value FROM json_each(?2)))",
};

/** The records, of all keys or of some. ?1: now, ?2: as for IDS, or null for all. */
const records = (some?: keyof typeof IDS) => `
  WITH ban AS (
    SELECT key_id, count(*) AS bans, max(unixepoch(to_value)) * 1000 AS ms FROM key_changes INDEXED BY bans
    WHERE change = '${BANNED}' AND at_ms > ?1 - ${BANS_COUNTED_DAYS * DAY_MS} AND ${some ? `key_id IN ${IDS[some]}` : "?2 IS NULL"}
    GROUP BY key_id
  ), grace AS (
    SELECT key_id, max(good_until_ms) AS ms FROM replaced_secrets
    WHERE good_until_ms > ?1 ${some ? `AND key_id IN ${IDS[some]}` : ""} GROUP BY key_id
  ), record AS (
    SELECT ${KEY_COLUMNS}, name, folded_name AS foldedName, ref, note, folded_note AS foldedNote, last_four AS lastFour, lower(hex(hash)) AS hash, created_at_ms AS createdAtMs, grace.ms AS graceUntilMs,
      ${SUSPENSION_REASON} AS suspensionReason,
      iif(ban.ms > max(?1, coalesce(bans_lifted_until_ms, 0)), ban.ms, NULL) AS bannedUntilMs, coalesce(bans, 0) AS bans
    FROM keys LEFT JOIN ban ON ban.key_id = id LEFT JOIN grace ON grace.key_id = id ${some ? `WHERE id IN ${IDS[some]}` : ""}
  )`;

const ENDED = "(revokedAtMs IS NOT NULL OR ifnull(expiresAtMs <= ?1, 0))";

/** The SQL of each state. A key can be in several: an active one may be expiring. ?1: now. */
const STATES = {
  active: `NOT ${ENDED} AND suspendedAtMs IS NULL AND bannedUntilMs IS NULL`,
  suspended: "revokedAtMs IS NULL AND suspendedAtMs IS NOT NULL",
  banned: `NOT ${ENDED} AND bannedUntilMs IS NOT NULL`,
  "read-only": `NOT ${ENDED} AND access = 'read'`,
  expiring: `NOT ${ENDED} AND expiresAtMs <= ?1 + ${EXPIRING_DAYS * DAY_MS}`,
  "in-grace": `NOT ${ENDED} AND graceUntilMs IS NOT NULL`,
  expired: `revokedAtMs IS NULL AND ${ENDED}`,
  revoked: "revokedAtMs IS NOT NULL",
};

type ListState = keyof typeof STATES;
export const LIST_STATES = Object.keys(STATES) as ListState[];

const ORDERS = {
  created: "createdAtMs DESC, id",
  name: "foldedName, name, id",
  expires: "expiresAtMs IS NULL, expiresAtMs, id",
  bans: "bans DESC, createdAtMs DESC, id",
};

export const LIST_ORDERS = Object.keys(ORDERS) as (keyof typeof ORDERS)[];

interface ListQuery {
  ids?: string[];
  /** Instead of ids: keys with one of these names. */
  names?: string[];
  /** A part of the name or the note (compared as foldName does), of the ref (without case) or of the id, or the last four characters of a secret, also a replaced one. */
  search?: string | undefined;
  plan?: Plan | undefined;
  state?: ListState | undefined;
  /**
   * Only keys that exist for so many days, and had no request on them; or ("ever") that had none since their secret was made, as far as is
   * recorded: requests of the last minutes are not yet.
   */
  unused?: number | "ever" | undefined;
  sort?: keyof typeof ORDERS | undefined;
  /** -1 for all. */
  limit?: number | undefined;
  offset?: number | undefined;
}

const UNUSED_EVER = `id NOT IN (
  SELECT used.key_id FROM (
    SELECT key_id, max(max(ifnull(last_admitted_ms, 0), ifnull(last_refused_ms, 0))) AS ms FROM key_usage
    WHERE key_id IN (SELECT id FROM record) GROUP BY key_id
  ) AS used LEFT JOIN (
    SELECT key_id, max(at_ms) AS ms FROM key_changes WHERE change = 'rotated' GROUP BY key_id
  ) AS rotated USING (key_id)
  WHERE rotated.ms IS NULL OR used.ms >= rotated.ms)`;

/** The SQL of keys that were made before, and have not been used since. Usage is by day, so it begins with the next one. */
function unusedSince(sinceMs: number): string {
  const used = `SELECT key_id FROM key_usage WHERE day > '${formatDate(sinceMs)}'`;
  return `createdAtMs <= ${sinceMs} AND id NOT IN (${used})`;
}

function unusedSql(unused: ListQuery["unused"], nowMs: number): string {
  if (unused === undefined) return "true";
  return unused === "ever" ? UNUSED_EVER : unusedSince(nowMs - unused * DAY_MS);
}

type Selected = Row<ListedRecord> &
  Record<"foldedName" | "foldedNote" | "states", string> & { total: number };

/** A statement that selects a page of keys, with the states of each. Reads as of `nowMs`. */
export function selectKeys(database: D1Database, nowMs: number, query: ListQuery): D1PreparedStatement {
  const { ids, names, search, plan = null, state, sort = "created", limit = -1, offset = 0 } = query;
  const unused = unusedSql(query.unused, nowMs);
  const states = LIST_STATES.map((name) => `iif(${STATES[name]}, '${name}', NULL)`);
  const some = ids ? "ids" : names && "names";
  const sql = `${records(some)}
    SELECT *, concat_ws(' ', ${states.join(", ")}) AS states, count(*) OVER () AS total,
      (SELECT last_four FROM replaced_secrets WHERE key_id = id AND last_four = ?3) AS foundReplaced FROM record
    WHERE (?3 IS NULL OR instr(foldedName, ?7) > 0 OR instr(lower(ref), ?7) > 0 OR instr(foldedNote, ?7) > 0 OR instr(id, ?3) > 0 OR lastFour = ?3
        OR id IN (SELECT key_id FROM replaced_secrets WHERE last_four = ?3))
      AND (?4 IS NULL OR plan = ?4) AND ${state === undefined ? "true" : STATES[state]} AND ${unused}
    ORDER BY ${ORDERS[sort]} LIMIT ?5 OFFSET ?6`;
  const values = ids ?? names?.map(foldName);
  const json = values === undefined ? null : JSON.stringify(values);
  const texts = search === undefined ? [null, null] : [search.trim(), foldName(search)];
  return database.prepare(sql).bind(nowMs, json, texts[0], plan, limit, offset, texts[1]);
}

/** The keys that `selectKeys` has selected, and how many keys match. */
export function listedKeys({ results }: D1Result) {
  const rows = results as Selected[];
  const keys = rows.map(({ states, foldedName: _, foldedNote: __, total: ___, ...key }) => ({
    ...key,
    limits: limitsOfRow(key),
    states: states.split(" ") as ListState[],
  }));
  return { keys, total: rows[0]?.total ?? 0 };
}

export async function listKeys(database: D1Database, nowMs: number, query: ListQuery = {}) {
  const statement = selectKeys(database, nowMs, query);
  const comparesNames = query.search !== undefined || query.names !== undefined || query.sort === "name";
  return listedKeys(await (comparesNames ? readByName(database, statement) : read(() => statement.all())));
}

/** How many keys there are, and how many in each state. Reads as of `nowMs`. */
export async function countKeys(database: D1Database, nowMs: number) {
  const counts = LIST_STATES.map((name) => `total(${STATES[name]}) AS "${name}"`);
  const statement = database.prepare(`${records()} SELECT count(*) AS total, ${counts} FROM record`);
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

/** A replaced secret whose grace lasts. The last four characters are null if an earlier version has replaced it. */
export interface Grace {
  lastFour: string | null;
  untilMs: number;
}

/** The graces of a key that last, the longest first. */
export async function findGraces(database: D1Database, id: string, nowMs: number): Promise<Grace[]> {
  const sql = `
    SELECT last_four AS lastFour, good_until_ms AS untilMs FROM replaced_secrets
    WHERE key_id = ?1 AND good_until_ms > ?2 ORDER BY good_until_ms DESC, last_four`;
  const { results } = await read(() => database.prepare(sql).bind(id, nowMs).all<Grace>());
  return results;
}

/** When the graces of replaced secrets of keys end or ended, by the hash of the secret. */
export async function findGraceEnds(database: D1Database, ids: string[]): Promise<Map<string, number>> {
  const sql = `
    SELECT lower(hex(hash)) AS hash, good_until_ms AS ms FROM replaced_secrets
    WHERE key_id IN (SELECT value FROM json_each(?1))`;
  const statement = database.prepare(sql).bind(JSON.stringify(ids));
  const { results } = await read(() => statement.all<{ hash: string; ms: number }>());
  return new Map(results.map(({ hash, ms }) => [hash, ms]));
}

/** Changes of one key, or of all; from `sinceMs` on, and before `untilMs`; by somebody, whose name is compared as foldName does. */
export interface ChangeQuery {
  id?: string | undefined;
  sinceMs?: number | undefined;
  untilMs?: number | undefined;
  by?: string | undefined;
  kind?: KeyChange | undefined;
}

/** Changes that are read at once: few enough for one answer of D1, however long their values are. */
const CHANGES_AT_ONCE = 2_000;

const changes = ({ id }: ChangeQuery) => `
  FROM key_changes LEFT JOIN keys ON keys.id = key_id
  WHERE ${id === undefined ? "?1 IS NULL" : "key_id = ?1"} AND (?2 IS NULL OR at_ms >= ?2) AND (?3 IS NULL OR at_ms < ?3)
    AND (?4 IS NULL OR changed_by IN (SELECT value FROM json_each(?4))) AND (?5 IS NULL OR change = ?5)`;
const selectChanges = (query: ChangeQuery) => `
  SELECT key_changes.id AS row, at_ms AS atMs, key_id AS id, coalesce(name, '') AS name, change, from_value AS "from",
    to_value AS "to", changed_by AS "by"
  ${changes(query)} AND key_changes.id < ?6 ORDER BY key_changes.id DESC LIMIT ?7`;

/** The changes that match, in the order in which they were made, the latest first; at most `limit`. Pages, none of them empty. */
export async function* readChanges(
  database: D1Database,
  query: ChangeQuery,
  limit = Number.MAX_SAFE_INTEGER,
): AsyncGenerator<ChangeRecord[]> {
  const statement = database.prepare(selectChanges(query));
  const values = await valuesOf(database, query);
  for (let left = limit, before = Number.MAX_SAFE_INTEGER; left > 0; ) {
    const size = Math.min(left, CHANGES_AT_ONCE);
    const page = statement.bind(...values, before, size);
    const { results } = await read(() => page.all<ChangeRecord & { row: number }>());
    if (results.length > 0) yield results.map(({ row: _, ...change }) => change);
    if (results.length < size) return;
    left -= size;
    before = results.at(-1)?.row ?? 0;
  }
}

export async function countChanges(database: D1Database, query: ChangeQuery): Promise<number> {
  const statement = database.prepare(`SELECT count(*) AS count ${changes(query)}`);
  const bound = statement.bind(...(await valuesOf(database, query)));
  return (await read(() => bound.first<{ count: number }>()))?.count ?? 0;
}

/** The latest changes that match. */
export async function listChanges(
  database: D1Database,
  query: ChangeQuery,
  limit?: number,
): Promise<ChangeRecord[]> {
  const changes: ChangeRecord[] = [];
  for await (const page of readChanges(database, query, limit)) changes.push(...page);
  return changes;
}

/** The parameters of `changes`. */
async function valuesOf(database: D1Database, { id, sinceMs, untilMs, by, kind }: ChangeQuery) {
  let names: string | null = null;
  if (by !== undefined) {
    const select = database.prepare("SELECT DISTINCT changed_by AS name FROM key_changes");
    const { results } = await read(() => select.all<{ name: string }>());
    const same = results.filter(({ name }) => foldName(name) === foldName(by));
    names = JSON.stringify(same.map(({ name }) => name));
  }
  return [id ?? null, sinceMs ?? null, untilMs ?? null, names, kind ?? null];
}

/** The latest change of a kind. `id` is that of the row: a later change has a larger one. */
export type LatestChange = Pick<ChangeRecord, "atMs" | "to" | "by"> & { id: number };

const SELECT_LATEST = `
  SELECT change, max(id) AS id, at_ms AS atMs, to_value AS "to", changed_by AS "by" FROM key_changes WHERE key_id = ?1 GROUP BY change`;

/** The latest change of each kind of a key, by the name of the change: what limits the key, and since when. */
export async function latestChanges(
  database: D1Database,
  keyId: string,
): Promise<Partial<Record<string, LatestChange>>> {
  const statement = database.prepare(SELECT_LATEST).bind(keyId);
  const { results } = await read(() => statement.all<LatestChange & { change: string }>());
  return Object.fromEntries(results.map(({ change, ...latest }) => [change, latest]));
}
