// A restore with D1 Time Travel, which restores the whole database in place. Three guarantees must survive it: an id is assigned
// once, a key or secret that has ended stays ended, and the record of key changes loses none. So the command saves the highest id,
// all keys and the record to a file before it changes anything, and merges them afterwards. From that file an interrupted restore
// can be finished.
//
// The service keeps running. A POST between the restore and the first statement after it gets an id that was assigned before.

import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { read, writeIdempotent } from "../../src/d1/statements.ts";
import { type Io, messageOf, shellWord } from "../lib/command.ts";
import { CloudflareApiError } from "./account.ts";
import { applyMigrations, type DeployedDatabase, pendingMigrations, type Target } from "./database.ts";
import { targetOptions } from "./target.ts";

export interface Restore {
  target: Target;
  bookmark: string;
  withKeys: boolean;
  /** A table that is created right before the restore, which removes it: while it exists, the restore has not happened. */
  marker: string;
  /** Set if an earlier attempt got as far as restoring. */
  saved?: Saved;
}

/** What the restore must not lose, as it was right before. Blobs are hexadecimal. */
export interface Saved {
  atMs: number;
  pets: number;
  highestId: string;
  keys: Row[];
  replacedSecrets: Row[];
  /** The record of key changes, oldest first. */
  changes: Row[];
}

type Row = Record<string, string | number | null>;

/** The columns that a change of a key sets, with its name in key_changes. The later of two changes decides. */
const CHANGE_OF: Record<string, string> = {
  name: "renamed",
  plan: "plan",
  per_minute: "plan",
  per_day: "plan",
  expires_at_ms: "expiry",
};

/**
 * Ids to skip, because clients get some between the reading of the highest id and the restore. D1 runs about a thousand
 * statements a second, and there are 2^63 ids.
 */
const SPARE_IDS = 1_000_000n;

/** With some dozens of replaced secrets each, these are well below the 2 MB that one parameter may have. */
const KEYS_PER_STATEMENT = 100;

/** A row with two names of 255 characters has about 3 kB. */
const CHANGES_PER_STATEMENT = 500;

const SELECT_PETS = `
  SELECT count(*) AS pets, CAST(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'pets'), 0) AS TEXT) AS highestId
  FROM pets`;
// sqlite_sequence has a row for pets only after the first insert. Its columns have no type, so a text would stay a text.
const INSERT_SEQUENCE = `
  INSERT INTO sqlite_sequence (name, seq)
  SELECT 'pets', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'pets')`;
const RAISE_SEQUENCE = "UPDATE sqlite_sequence SET seq = max(seq, CAST(?1 AS INTEGER)) WHERE name = 'pets'";
const SELECT_COLUMNS = "SELECT name, type = 'BLOB' AS isBlob FROM pragma_table_info('keys')";
const SELECT_REPLACED = "SELECT hex(hash) AS hash, key_id, good_until_ms FROM replaced_secrets";
const RECORD = ["key_id", "at_ms", "change", "from_value", "to_value", "changed_by"];
const SELECT_CHANGES = `SELECT ${RECORD.join(", ")} FROM key_changes ORDER BY at_ms, id`;
// ?1: rows of the record. Inserts those that are missing. Ids differ: those of the missing may have been assigned again.
const INSERT_CHANGES = `
  INSERT INTO key_changes (${RECORD.join(", ")})
  SELECT ${RECORD.map((column) => `value ->> '${column}'`).join(", ")} FROM json_each(?1)
  WHERE NOT EXISTS (
    SELECT 1 FROM key_changes WHERE ${RECORD.map((column) => `${column} IS value ->> '${column}'`).join(" AND ")}
  )`;
const SELECT_MARKERS = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'restoring_*'";

// ?1: saved keys, ?2: their replaced secrets. Runs after the keys were merged: if the current secret is not the saved one, a
// rotation after the restore made it. That rotation also ends the saved secrets, when it ended the last of those it found.
const MERGE_REPLACED_SECRETS = `
  INSERT INTO replaced_secrets (hash, key_id, good_until_ms)
  WITH saved AS (
    SELECT unhex(value ->> 'hash') AS hash, value ->> 'key_id' AS key_id, value ->> 'good_until_ms' AS good_until_ms
    FROM json_each(?2)
  ), rotated AS (
    SELECT keys.id AS key_id, unhex(value ->> 'hash') AS saved_hash,
      (SELECT max(good_until_ms) FROM replaced_secrets
       WHERE key_id = keys.id AND hash IN (SELECT hash FROM saved UNION SELECT unhex(value ->> 'hash'))) AS end_ms
    FROM json_each(?1) JOIN keys ON keys.id = value ->> 'id' AND keys.hash <> unhex(value ->> 'hash')
  )
  SELECT saved_hash, key_id, coalesce(end_ms, 1) FROM rotated
  UNION ALL
  SELECT hash, key_id, min(good_until_ms, coalesce(end_ms, good_until_ms)) FROM saved LEFT JOIN rotated USING (key_id)
  WHERE true ON CONFLICT (hash) DO UPDATE SET good_until_ms = min(good_until_ms, excluded.good_until_ms)`;

/** Reads what a restore must not lose. */
export async function saveState(database: D1Database): Promise<Saved> {
  const columns = (await keyColumns(database)).map(({ name, isBlob }) =>
    isBlob ? `hex(${name}) AS ${name}` : name,
  );
  const pets = await readPets(database);
  // Last, because the restore undoes every later change of a key. One batch shows all tables at the same moment.
  const queries = [`SELECT ${columns.join(", ")} FROM keys`, SELECT_REPLACED, SELECT_CHANGES];
  const results = await read(() => database.batch<Row>(queries.map((sql) => database.prepare(sql))));
  const [keys, replacedSecrets, changes] = results.map((each) => each.results);
  if (!keys || !replacedSecrets || !changes) throw new Error("a statement returned no result");
  return { ...pets, atMs: Date.now(), keys, replacedSecrets, changes };
}

/**
 * Restores the database, or finishes the restore in the file, and removes the file. Prints the command that undoes it before
 * it changes anything. Throws an error that says what has happened and how to go on.
 */
export async function restoreDatabase(deployed: DeployedDatabase, restore: Restore, file: string, io: Io) {
  const { database } = deployed;
  try {
    // Until the restore has happened, the service changes what is going to be restored, so the state is saved anew.
    const saved =
      (await savedIfRestored(database, restore)) ?? (await saveAndRestore(deployed, restore, file, io));
    const result = await io.step("Merging ids and keys", () => merge(database, restore, saved));
    await rm(file);
    return result;
  } catch (error) {
    const isStarted = existsSync(file);
    // A marker that can't be removed is harmless.
    if (!isStarted) await dropMarkers(database).catch(() => {});
    const state = isStarted
      ? `until you finish it, ids may be assigned twice and ended keys may be valid: npm run restore -- --resume ${shellWord(file)}`
      : "nothing was changed";
    throw new Error(`${messageOf(error)}; ${state}`);
  }
}

/** What an earlier attempt saved, if its restore has happened: that removes the marker. */
async function savedIfRestored(database: D1Database, { saved, marker }: Restore) {
  return saved && !(await findMarkers(database)).includes(marker) ? saved : undefined;
}

async function saveAndRestore(deployed: DeployedDatabase, restore: Restore, file: string, io: Io) {
  const { database, timeTravel } = deployed;
  const { target, bookmark, withKeys, marker } = restore;
  // Not again on --resume: Cloudflare may still be working on an earlier restore, which removes the table.
  if (restore.saved === undefined) {
    const create = database.prepare(`CREATE TABLE IF NOT EXISTS ${marker} (id INTEGER) STRICT`);
    await writeIdempotent(() => create.run());
  }
  const undoBookmark = await timeTravel.bookmark();
  const saved = await io.step("Saving ids and keys", () => saveState(database));
  // The earlier restore has happened meanwhile, so `saved` may be the restored state.
  const earlier = await savedIfRestored(database, restore);
  if (earlier !== undefined) return earlier;
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

/** Merges the saved state into the restored database. Each step is idempotent. */
async function merge(database: D1Database, restore: Restore, saved: Saved) {
  const highestId = BigInt(saved.highestId) + SPARE_IDS;
  // First of all. It fails if the table does not exist yet, and is repeated after the migrations.
  await raiseSequence(database, highestId).catch(() => {});
  const migrations = await pendingMigrations(database);
  if (migrations.length > 0) await applyMigrations(restore.target);
  await raiseSequence(database, highestId);

  await mergeKeys(database, saved, restore.withKeys);
  for (const rows of chunksOf(saved.changes, CHANGES_PER_STATEMENT)) {
    const insert = database.prepare(INSERT_CHANGES).bind(JSON.stringify(rows));
    await writeIdempotent(() => insert.run());
  }
  await dropMarkers(database);

  const { pets, highestId: raisedId } = await readPets(database);
  return { pets, nextId: BigInt(raisedId) + 1n, migrations };
}

/** Merges the saved keys into the restored ones. Idempotent, also after later changes of keys. */
async function mergeKeys(database: D1Database, saved: Saved, withKeys: boolean): Promise<void> {
  const [row = {}] = saved.keys;
  const columns = (await keyColumns(database)).filter(({ name }) => Object.hasOwn(row, name));
  const values = columns.map(({ name, isBlob }) =>
    isBlob ? `unhex(value ->> '${name}')` : `value ->> '${name}'`,
  );
  const mergeKey = `
    INSERT INTO keys (${columns.map(({ name }) => name).join(", ")})
    SELECT ${values.join(", ")} FROM json_each(?1)
    WHERE true ON CONFLICT (id) DO UPDATE SET
    ${columns.map(({ name }) => `${name} = ${mergedValue(name, withKeys, saved.atMs)}`).join(", ")}`;
  for (const keys of chunksOf(saved.keys, KEYS_PER_STATEMENT)) {
    const ids = new Set(keys.map(({ id }) => id));
    const ofKeys = (rows: Row[]) => rows.filter(({ key_id: id = null }) => ids.has(id));
    // A later change of the same kind replaces the time of an earlier one.
    const times = ofKeys(saved.changes).map((each) => [`${each.key_id} ${each.change}`, each.at_ms]);
    const parameters = [keys, ofKeys(saved.replacedSecrets)].map((rows) => JSON.stringify(rows));
    const statements = [
      database.prepare(mergeKey).bind(...parameters, JSON.stringify(Object.fromEntries(times))),
      database.prepare(MERGE_REPLACED_SECRETS).bind(...parameters),
    ];
    await writeIdempotent(() => database.batch(statements));
  }
}

/**
 * The SQL for a merged column: `keys` is the restored key, with changes since the restore; `excluded` the saved one. ?2: replaced
 * secrets, ?3: the time of the last change by key and kind, both as saved.
 */
function mergedValue(column: string, withKeys: boolean, savedAtMs: number): string {
  const [restored, saved] = [`keys.${column}`, `excluded.${column}`];
  // A key that was revoked on either side stays revoked.
  if (column === "revoked_at_ms") return `coalesce(${restored}, ${saved})`;
  if (column === "bans_lifted_until_ms")
    return `nullif(max(coalesce(${restored}, 0), coalesce(${saved}, 0)), 0)`;
  // A current secret that is not among the saved ones was made since the restore, and stays current.
  if (column === "hash" || column === "last_four")
    return `iif(keys.hash IN (SELECT unhex(value ->> 'hash') FROM json_each(?2)), ${saved}, ${restored})`;
  const change = CHANGE_OF[column];
  // The restored record can only have a later change if it was made since the restore.
  const isChangedSince = `EXISTS (
    SELECT 1 FROM key_changes WHERE key_id = keys.id AND change = '${change}'
    AND at_ms > coalesce((SELECT value FROM json_each(?3) WHERE key = keys.id || ' ${change}'), 0))`;
  if (!withKeys) return change === undefined ? saved : `iif(${isChangedSince}, ${restored}, ${saved})`;
  // A key that had expired stays expired.
  return column === "expires_at_ms"
    ? `iif(${saved} <= ${savedAtMs} AND NOT ${isChangedSince}, ${saved}, ${restored})`
    : restored;
}

function chunksOf(rows: Row[], size: number): Row[][] {
  const starts = Array.from({ length: Math.ceil(rows.length / size) }, (_, index) => index * size);
  return starts.map((start) => rows.slice(start, start + size));
}

async function readPets(database: D1Database): Promise<{ pets: number; highestId: string }> {
  const row = await read(() => database.prepare(SELECT_PETS).first<{ pets: number; highestId: string }>());
  if (row === null) throw new Error("an aggregate returned no row");
  return row;
}

/** The columns that the table has, so that a migration's new column is merged too. */
async function keyColumns(database: D1Database) {
  const select = database.prepare(SELECT_COLUMNS);
  const { results } = await read(() => select.all<{ name: string; isBlob: number }>());
  if (results.length === 0) throw new Error("there is no table keys");
  return results;
}

/** In one call, because until it arrives old ids are assigned again. */
async function raiseSequence(database: D1Database, highestId: bigint): Promise<void> {
  const raise = database.prepare(RAISE_SEQUENCE).bind(`${highestId}`);
  await writeIdempotent(() => database.batch([database.prepare(INSERT_SEQUENCE), raise]));
}

async function findMarkers(database: D1Database): Promise<string[]> {
  const { results } = await read(() => database.prepare(SELECT_MARKERS).all<{ name: string }>());
  return results.map(({ name }) => name);
}

/** Drops all markers: the restored state may be from the middle of an earlier restore, and have its marker. */
async function dropMarkers(database: D1Database): Promise<void> {
  for (const marker of await findMarkers(database)) {
    await writeIdempotent(() => database.prepare(`DROP TABLE IF EXISTS ${marker}`).run());
  }
}
