// A restore with D1 Time Travel, which restores the whole database in place. Three guarantees must survive it: an id is assigned
// once, a key or secret that has ended stays ended, and the record of key changes loses none. So the command saves the highest id,
// all keys and the record to a file before it changes anything, and merges them afterwards. From that file an interrupted restore
// can be finished.
//
// The service keeps running. A POST between the restore and the first statement after it gets an id that was assigned before.

import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { read, writeIdempotent } from "../../src/d1/statements.ts";
import { type Io, messageOf } from "../lib/command.ts";
import { CloudflareApiError } from "./account.ts";
import { type DeployedDatabase, migrate, type Target } from "./database.ts";
import { targetOptions } from "./target.ts";

export interface Restore {
  target: Target;
  bookmark: string;
  withKeys: boolean;
  /** The column of a table that is created before the restore, which removes it: while it exists, that has not happened. */
  marker: string;
  /** Set if an earlier attempt got as far as restoring. */
  saved?: Saved;
}

/** What the restore must not lose, as it was right before. */
export interface Saved {
  highestId: string;
  /** Rows with replaced secrets and the time of the last change of each kind, both as JSON. Hashes are hexadecimal. */
  keys: Row[];
  /** The record of key changes, oldest first. */
  changes: Row[];
}

type Row = Record<string, unknown>;

/** The columns that a change of a key sets, with its name in key_changes. The later of two changes decides. */
const CHANGE_OF: Record<string, string> = {
  name: "renamed",
  plan: "plan",
  per_minute: "plan",
  per_day: "plan",
  expires_at_ms: "expiry",
};

/** Clients get ids between the reading of the highest one and the restore. D1 runs about a thousand statements a second. */
const SPARE_IDS = 1_000_000;

/** A parameter may have 2 MB. A key can have some dozens of replaced secrets, and a change two names of 255 characters. */
const ROWS_PER_STATEMENT = 100;

const RECORD = ["key_id", "at_ms", "change", "from_value", "to_value", "changed_by"];

const SELECT_SAVED = [
  "SELECT CAST(coalesce(max(seq), 0) AS TEXT) AS highestId FROM sqlite_sequence WHERE name = 'pets'",
  `SELECT *, hex(hash) AS hex,
    (SELECT json_group_array(json_object('hash', hex(hash), 'good_until_ms', good_until_ms))
      FROM replaced_secrets WHERE key_id = keys.id) AS replaced,
    (SELECT json_group_object(change, at_ms)
      FROM (SELECT change, max(at_ms) AS at_ms FROM key_changes WHERE key_id = keys.id GROUP BY change)) AS changed
  FROM keys`,
  `SELECT ${RECORD.join(", ")} FROM key_changes ORDER BY at_ms, id`,
];

const SELECT_MARKER = "SELECT 1 FROM pragma_table_info('restoring') WHERE name = ?1";
const DROP_MARKER = "DROP TABLE IF EXISTS restoring";

// sqlite_sequence has a row for pets only after the first insert. Its columns have no type, so a text would stay a text.
const RAISE_IDS = [
  `INSERT INTO sqlite_sequence (name, seq)
  SELECT 'pets', CAST(?1 AS INTEGER) WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'pets')`,
  `UPDATE sqlite_sequence SET seq = max(seq, CAST(?1 AS INTEGER) + ${SPARE_IDS}) WHERE name = 'pets'`,
];

// ?1: saved keys. Runs after the keys were merged: if the current secret is not the saved one, a rotation after the restore made
// it. That rotation also ends the saved secrets, when it ended the last of those it found.
const MERGE_REPLACED_SECRETS = `
  INSERT INTO replaced_secrets (hash, key_id, good_until_ms)
  WITH key AS (
    SELECT value ->> 'id' AS id, unhex(value ->> 'hash') AS hash, value ->> 'replaced' AS replaced FROM json_each(?1)
  ), saved AS (
    SELECT id AS key_id, hash, NULL AS good_until_ms FROM key
    UNION ALL
    SELECT key.id, unhex(value ->> 'hash'), value ->> 'good_until_ms' FROM key, json_each(replaced)
  ), rotated AS (
    SELECT id AS key_id, (
      SELECT max(good_until_ms) FROM replaced_secrets WHERE key_id = keys.id AND hash IN (SELECT hash FROM saved)
    ) AS end_ms
    FROM keys JOIN key USING (id) WHERE keys.hash <> key.hash
  )
  SELECT hash, key_id, coalesce(min(good_until_ms, end_ms), good_until_ms, end_ms, 1)
  FROM saved LEFT JOIN rotated USING (key_id) WHERE good_until_ms IS NOT NULL OR rotated.key_id IS NOT NULL
  ON CONFLICT (hash) DO UPDATE SET good_until_ms = min(good_until_ms, excluded.good_until_ms)`;

// ?1: rows of the record. Inserts those that are missing. Ids differ: those of the missing may have been assigned again.
const INSERT_CHANGES = `
  INSERT INTO key_changes (${RECORD.join(", ")})
  SELECT ${RECORD.map((column) => `value ->> '${column}'`).join(", ")} FROM json_each(?1)
  WHERE NOT EXISTS (
    SELECT 1 FROM key_changes WHERE ${RECORD.map((column) => `${column} IS value ->> '${column}'`).join(" AND ")}
  )`;

/** Reads what a restore must not lose, in one batch, so that all is of the same moment. */
export async function saveState(database: D1Database): Promise<Saved> {
  const results = await read(() => database.batch<Row>(SELECT_SAVED.map((sql) => database.prepare(sql))));
  const [ids, keys, changes] = results.map((each) => each.results) as [Row[], Row[], Row[]];
  const withHexHash = keys.map(({ hex, ...key }) => ({ ...key, hash: hex }));
  return { highestId: `${ids[0]?.highestId}`, keys: withHexHash, changes };
}

/**
 * Restores the database, or finishes the restore in the file, and removes the file. Prints the command that undoes it before
 * it changes anything. Returns the migrations that were applied again. Throws an error that says what has happened.
 */
export async function restoreDatabase(deployed: DeployedDatabase, restore: Restore, file: string, io: Io) {
  const { database } = deployed;
  try {
    const saved = await restoreOnce(deployed, restore, file, io);
    const migrations = await io.step("Merging ids and keys", () => merge(database, restore, saved));
    await rm(file);
    return migrations;
  } catch (error) {
    const isStarted = existsSync(file);
    // A marker that can't be removed is harmless.
    if (!isStarted) await run(database, [DROP_MARKER]).catch(() => {});
    const state = isStarted
      ? "until you finish it, ids may be assigned twice and ended keys may be valid: npm run restore -- --resume"
      : "nothing was changed";
    throw new Error(`${messageOf(error)}; ${state}`);
  }
}

/** Restores, unless an earlier attempt has. Returns the state before the restore. */
async function restoreOnce(deployed: DeployedDatabase, restore: Restore, file: string, io: Io) {
  const { database, timeTravel } = deployed;
  const { target, bookmark, withKeys, marker, saved: earlier } = restore;
  const isMarked = () => read(() => database.prepare(SELECT_MARKER).bind(marker).first());
  if (earlier && !(await isMarked())) return earlier;
  const undoBookmark = await timeTravel.bookmark();
  // Not again on --resume: Cloudflare may still be working on an earlier restore, which removes the table.
  if (!earlier) await run(database, [DROP_MARKER, `CREATE TABLE restoring (${marker} INTEGER) STRICT`]);
  // Until the restore has happened, the service changes what is going to be restored, so --resume saves it anew.
  const saved = await io.step("Saving ids and keys", () => saveState(database));
  // The earlier restore has happened meanwhile, so `saved` may be the restored state.
  if (earlier && !(await isMarked())) return earlier;
  const options = `${withKeys ? " --with-keys" : ""}${targetOptions(target)}`;
  io.note(`To undo: npm run restore -- --bookmark ${undoBookmark}${options}`);
  await writeFile(file, JSON.stringify({ ...restore, saved }), { mode: 0o600 });
  try {
    await io.step("Restoring", () => timeTravel.restore(bookmark));
  } catch (error) {
    // A 4xx means that nothing has happened. After any other failure the restore may have happened.
    if (error instanceof CloudflareApiError && error.status < 500) await rm(file);
    throw error;
  }
  return saved;
}

/** Merges the saved state into the restored database. Each step is idempotent, also after later changes of keys. */
async function merge(database: D1Database, { target, withKeys }: Restore, saved: Saved): Promise<string[]> {
  // First of all, because until then old ids are assigned again. It fails if the table does not exist yet.
  await run(database, RAISE_IDS, saved.highestId).catch(() => {});
  const migrations = await migrate(target);
  await run(database, RAISE_IDS, saved.highestId);
  for (const keys of chunksOf(saved.keys))
    await run(database, [mergeKeys(keys, withKeys), MERGE_REPLACED_SECRETS], JSON.stringify(keys));
  for (const changes of chunksOf(saved.changes))
    await run(database, [INSERT_CHANGES], JSON.stringify(changes));
  // The restored state may be from the middle of an earlier restore, and have its marker.
  await run(database, [DROP_MARKER]);
  return migrations;
}

/** The SQL that merges saved keys (?1), with all their columns, into the restored ones. */
function mergeKeys([{ replaced: _, changed: __, ...key } = {}]: Row[], withKeys: boolean): string {
  const columns = Object.keys(key);
  return `
    INSERT INTO keys (${columns.join(", ")})
    SELECT ${columns.map((column) => mergedValue(column, withKeys)).join(", ")}
    FROM json_each(?1) AS saved LEFT JOIN keys ON keys.id = saved.value ->> 'id'
    WHERE true ON CONFLICT (id) DO UPDATE SET ${columns.map((column) => `${column} = excluded.${column}`).join(", ")}`;
}

/** The SQL for a merged column: `keys` is the restored key, if it exists, with changes since the restore. */
function mergedValue(column: string, withKeys: boolean): string {
  const restored = `keys.${column}`;
  const saved = column === "hash" ? "unhex(saved.value ->> 'hash')" : `saved.value ->> '${column}'`;
  const restoredIf = (test: string) => `iif(keys.id IS NOT NULL AND (${test}), ${restored}, ${saved})`;
  // A revocation or a lifted ban counts on either side.
  if (column === "revoked_at_ms" || column === "bans_lifted_until_ms")
    return `max(coalesce(${restored}, ${saved}), coalesce(${saved}, ${restored}))`;
  // A current secret that is not among the saved ones was made since the restore, and stays current.
  const replaced = "SELECT unhex(value ->> 'hash') FROM json_each(saved.value ->> 'replaced')";
  if (column === "hash" || column === "last_four") return restoredIf(`keys.hash NOT IN (${replaced})`);
  const change = CHANGE_OF[column];
  if (change === undefined) return saved;
  // The restored record can only have a later change if it was made since the restore.
  const isChangedSince = `EXISTS (
    SELECT 1 FROM key_changes WHERE key_id = keys.id AND change = '${change}'
    AND at_ms > coalesce(saved.value ->> 'changed' ->> '${change}', 0))`;
  if (!withKeys) return restoredIf(isChangedSince);
  // A key that has expired stays expired.
  const isExpired = change === "expiry" ? `coalesce(${saved} <= unixepoch() * 1000, false)` : "false";
  return restoredIf(`${isChangedSince} OR NOT ${isExpired}`);
}

function* chunksOf(rows: Row[]) {
  for (let start = 0; start < rows.length; start += ROWS_PER_STATEMENT)
    yield rows.slice(start, start + ROWS_PER_STATEMENT);
}

/** Runs statements that have no effect when repeated, all with the same parameters. */
function run(database: D1Database, statements: string[], ...parameters: string[]) {
  const bound = statements.map((sql) => database.prepare(sql).bind(...parameters));
  return writeIdempotent(() => database.batch(bound));
}
