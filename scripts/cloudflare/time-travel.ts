// A restore with D1 Time Travel, which restores the whole database in place. Two guarantees must survive it: an id is assigned
// once, and a key or secret that has ended stays ended. So the command saves the highest id and all keys to a file before it
// changes anything, and merges them afterwards. From that file an interrupted restore can be finished.
//
// The service keeps running. A POST between the restore and the first statement after it gets an id that was assigned before.

import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { read, writeIdempotent } from "../../src/d1/statements.ts";
import { messageOf } from "../lib/command.ts";
import { CloudflareApiError } from "./account.ts";
import { applyMigrations, type DeployedDatabase, pendingMigrations, type Target } from "./database.ts";

export interface Restore {
  target: Target;
  bookmark: string;
  withKeys: boolean;
  /** A table that is created right before the restore, which removes it: while it exists, the restore has not happened. */
  marker: string;
  /** Set if an earlier attempt got as far as restoring. */
  saved?: Saved;
}

/** The later of two plan changes decides all of these. */
const PLAN_COLUMNS = ["plan", "per_minute", "per_day", "plan_set_at_ms"];

/** What the restore must not lose, as it was right before. Blobs are hexadecimal. */
export interface Saved {
  pets: number;
  highestId: string;
  keys: Row[];
  replacedSecrets: Row[];
}

export interface RestoreResult {
  pets: number;
  nextId: bigint;
  migrations: string[];
}

type Row = Record<string, string | number | null>;

/**
 * Ids to skip, because clients get some between the reading of the highest id and the restore. D1 runs about a thousand
 * statements a second, and there are 2^63 ids.
 */
const SPARE_IDS = 1_000_000n;

/** With some dozens of replaced secrets each, these are well below the 2 MB that one parameter may have. */
const KEYS_PER_STATEMENT = 100;

const SELECT_PETS = `
  SELECT count(*) AS pets, CAST(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'pets'), 0) AS TEXT) AS highestId
  FROM pets`;
// sqlite_sequence has a row for pets only after the first insert. Its columns have no type, so a text would stay a text.
const INSERT_SEQUENCE = `
  INSERT INTO sqlite_sequence (name, seq)
  SELECT 'pets', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'pets')`;
const RAISE_SEQUENCE = "UPDATE sqlite_sequence SET seq = max(seq, CAST(?1 AS INTEGER)) WHERE name = 'pets'";
const SELECT_COLUMNS = "SELECT name, type FROM pragma_table_info('keys')";
const SELECT_REPLACED = "SELECT hex(hash) AS hash, key_id, good_until_ms FROM replaced_secrets";
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
  // Keys last, because the restore undoes every later change of them. One batch shows keys and secrets of the same moment.
  const [keys, replaced] = await read(() =>
    database.batch<Row>([
      database.prepare(`SELECT ${columns.join(", ")} FROM keys`),
      database.prepare(SELECT_REPLACED),
    ]),
  );
  if (keys === undefined || replaced === undefined) throw new Error("a statement returned no result");
  return { ...pets, keys: keys.results, replacedSecrets: replaced.results };
}

/**
 * Restores the database, or finishes the restore in `file`, and removes the file. Passes the bookmark that undoes it to
 * `onUndoBookmark` before it changes anything. Throws an error that says what has happened and how to go on.
 */
export async function restoreDatabase(
  deployed: DeployedDatabase,
  restore: Restore,
  file: string,
  onUndoBookmark: (bookmark: string) => void,
): Promise<RestoreResult> {
  const { database } = deployed;
  try {
    let { saved } = restore;
    // While the marker exists, the service changes what is going to be restored, so the state is saved anew.
    if (saved === undefined || (await findMarkers(database)).includes(restore.marker)) {
      saved = await saveAndRestore(deployed, restore, file, onUndoBookmark);
    }
    const result = await merge(database, restore, saved);
    await rm(file);
    return result;
  } catch (error) {
    const isStarted = existsSync(file);
    // A marker that can't be removed is harmless.
    if (!isStarted) await dropMarkers(database).catch(() => {});
    const state = isStarted
      ? `until you finish it, ids may be assigned twice and ended keys may be valid: npm run restore -- --resume ${file}`
      : "nothing was changed";
    throw new Error(`${messageOf(error)}; ${state}`);
  }
}

async function saveAndRestore(
  { database, timeTravel }: DeployedDatabase,
  restore: Restore,
  file: string,
  onUndoBookmark: (bookmark: string) => void,
): Promise<Saved> {
  // Not again on --resume: Cloudflare may still be working on an earlier restore, which removes the table.
  if (restore.saved === undefined) {
    await writeIdempotent(() =>
      database.prepare(`CREATE TABLE IF NOT EXISTS ${restore.marker} (id INTEGER) STRICT`).run(),
    );
  }
  const undoBookmark = await timeTravel.bookmark();
  const saved = await saveState(database);
  // The earlier restore has happened meanwhile, so `saved` may be the restored state.
  if (restore.saved !== undefined && !(await findMarkers(database)).includes(restore.marker)) {
    return restore.saved;
  }
  onUndoBookmark(undoBookmark);
  await writeFile(file, JSON.stringify({ ...restore, saved }), { mode: 0o600 });
  try {
    await timeTravel.restore(restore.bookmark);
  } catch (error) {
    // A 4xx means that nothing has happened. After any other failure the restore may have happened.
    if (error instanceof CloudflareApiError && error.status < 500) await rm(file);
    throw error;
  }
  return saved;
}

/** Merges the saved state into the restored database. Each step is idempotent. */
async function merge(
  database: D1Database,
  { target, withKeys }: Restore,
  saved: Saved,
): Promise<RestoreResult> {
  const highestId = BigInt(saved.highestId) + SPARE_IDS;
  // First of all. It fails if the table does not exist yet, and is repeated after the migrations.
  await raiseSequence(database, highestId).catch(() => {});
  const migrations = await pendingMigrations(database);
  if (migrations.length > 0) await applyMigrations(target);
  await raiseSequence(database, highestId);

  await mergeKeys(database, saved, withKeys);
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
    ${columns.map(({ name }) => `${name} = ${mergedValue(name, withKeys)}`).join(", ")}`;
  for (let start = 0; start < saved.keys.length; start += KEYS_PER_STATEMENT) {
    const keys = saved.keys.slice(start, start + KEYS_PER_STATEMENT);
    const ids = new Set(keys.map(({ id }) => id));
    const replaced = saved.replacedSecrets.filter(({ key_id: id = null }) => ids.has(id));
    const parameters = [JSON.stringify(keys), JSON.stringify(replaced)];
    const statements = [mergeKey, MERGE_REPLACED_SECRETS].map((sql) =>
      database.prepare(sql).bind(...parameters),
    );
    await writeIdempotent(() => database.batch(statements));
  }
}

/** The SQL for a merged column: `keys` is the restored key, with changes since the restore; `excluded` the saved one. */
function mergedValue(column: string, withKeys: boolean): string {
  const [restored, saved] = [`keys.${column}`, `excluded.${column}`];
  // A key that was revoked on either side stays revoked.
  if (column === "revoked_at_ms") return `coalesce(${restored}, ${saved})`;
  // A current secret that is not among the saved ones was made since the restore, and stays current.
  if (column === "hash" || column === "last_four")
    return `iif(keys.hash IN (SELECT unhex(value ->> 'hash') FROM json_each(?2)), ${saved}, ${restored})`;
  if (withKeys) return restored;
  const isLater = "coalesce(keys.plan_set_at_ms, 0) > coalesce(excluded.plan_set_at_ms, 0)";
  return PLAN_COLUMNS.includes(column) ? `iif(${isLater}, ${restored}, ${saved})` : saved;
}

async function readPets(database: D1Database): Promise<{ pets: number; highestId: string }> {
  const row = await read(() => database.prepare(SELECT_PETS).first<{ pets: number; highestId: string }>());
  if (row === null) throw new Error("an aggregate returned no row");
  return row;
}

/** The columns that the table has, so that a migration's new column is merged too. */
async function keyColumns(database: D1Database) {
  const { results } = await read(() =>
    database.prepare(SELECT_COLUMNS).all<{ name: string; type: string }>(),
  );
  if (results.length > 0) return results.map(({ name, type }) => ({ name, isBlob: type === "BLOB" }));
  throw new Error("there is no table keys");
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
