// The steps of a restore with D1 Time Travel, which puts a whole database back, in place. This file sees to it that no
// promise goes back with it: an id is given once, and a key or secret that has ended stays ended. What has to be known
// for that is in a file before anything changes, so that a restore that breaks off anywhere can be gone on with.
//
// It doesn't stop the service. Between the restore and the first statement after it, a creation gets an old id.

import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { read, writeOnce } from "../src/database.ts";
import { ApiRefusal } from "./cloudflare-account.ts";
import { applyMigrations, type DeployedDatabase, pendingMigrations, type Target } from "./database.ts";

/** A restore that was asked for; with `kept`, one that may have begun. */
export interface Restore {
  target: Target;
  bookmark: string;
  /** Whether keys go back too. */
  withKeys: boolean;
  /** A table that is made right before: once it is gone, the database has gone back. */
  mark: string;
  kept?: Kept;
}

/** What must not be lost, as it was right before. Blobs are hexadecimal. */
export interface Kept {
  pets: number;
  highestId: string;
  keys: Row[];
  replacedSecrets: Row[];
}

/** What came of it. */
export interface Restored {
  pets: number;
  nextId: bigint;
  migrations: string[];
}

type Row = Record<string, string | number | null>;

/**
 * Ids that are passed over, because some are given between reading the highest and the restore. D1 runs about a
 * thousand statements a second, and there are 2^63 ids.
 */
const SPARE_IDS = 1_000_000n;

/** One parameter has room for some thousands. */
const ROWS_PER_STATEMENT = 500;

const SELECT_PETS = `
  SELECT count(*) AS pets, CAST(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'pets'), 0) AS TEXT) AS highestId
  FROM pets`;
// The table knows pets only after the first one. Its columns have no type, so a text would stay one.
const INSERT_SEQUENCE = `
  INSERT INTO sqlite_sequence (name, seq)
  SELECT 'pets', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'pets')`;
const RAISE_SEQUENCE = "UPDATE sqlite_sequence SET seq = max(seq, CAST(?1 AS INTEGER)) WHERE name = 'pets'";
const SELECT_COLUMNS = "SELECT name, type FROM pragma_table_info(?1)";
const SELECT_MARKS = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'restoring_*'";

/** Reads what a restore must not lose. */
export async function keep(database: D1Database): Promise<Kept> {
  const keys = await rowsOf(database, "keys");
  return { ...(await petsOf(database)), keys, replacedSecrets: await rowsOf(database, "replaced_secrets") };
}

/**
 * Restores, or goes on with what is in `file`, which is removed in the end. `announce` is told the bookmark that undoes
 * it before anything changes. Throws an error that says how things are, and how to go on.
 */
export async function restoreDatabase(
  deployed: DeployedDatabase,
  restore: Restore,
  file: string,
  announce: (undo: string) => void,
): Promise<Restored> {
  try {
    let { kept } = restore;
    // As long as the mark is there the service runs on what is to be restored, so all is read again.
    if (kept === undefined || (await marksOf(deployed.database)).includes(restore.mark)) {
      kept = await goBack(deployed, restore, file, announce);
    }
    const restored = await putRight(deployed.database, restore, kept);
    await rm(file);
    return restored;
  } catch (error) {
    const isBegun = existsSync(file);
    // All that there can be is the mark, which does no harm if it can't be removed.
    if (!isBegun) await dropMarks(deployed.database).catch(() => {});
    const state = isBegun
      ? `until it is finished, ids may be given twice and ended keys be good: npm run restore -- --resume ${file}`
      : "nothing was changed";
    throw new Error(`${error instanceof Error ? error.message : error}; ${state}`);
  }
}

async function goBack(
  { database, timeTravel }: DeployedDatabase,
  restore: Restore,
  file: string,
  announce: (undo: string) => void,
): Promise<Kept> {
  await writeOnce(() =>
    database.prepare(`CREATE TABLE IF NOT EXISTS ${restore.mark} (id INTEGER) STRICT`).run(),
  );
  const undo = await timeTravel.bookmark();
  const kept = await keep(database);
  announce(undo);
  await writeFile(file, JSON.stringify({ ...restore, kept }), { mode: 0o600 });
  try {
    await timeTravel.restore(restore.bookmark);
  } catch (error) {
    // Refused, so nothing has happened. After anything else, that is unknown.
    if (error instanceof ApiRefusal && error.status < 500) await rm(file);
    throw error;
  }
  return kept;
}

/** Each step may be done again. */
async function putRight(database: D1Database, { target, withKeys }: Restore, kept: Kept): Promise<Restored> {
  const highestId = BigInt(kept.highestId) + SPARE_IDS;
  // At once. It fails where there is no table yet, and is done again below.
  await raiseSequence(database, highestId).catch(() => {});
  const migrations = await pendingMigrations(database);
  if (migrations.length > 0) await applyMigrations(target);
  await raiseSequence(database, highestId);

  // A replaced secret needs its key to be there, and which secret of a key is current depends on which are replaced.
  await putBack(database, "keys", kept.keys, "(id) DO NOTHING");
  const shorter = "good_until_ms = min(replaced_secrets.good_until_ms, excluded.good_until_ms)";
  await putBack(database, "replaced_secrets", kept.replacedSecrets, `(hash) DO UPDATE SET ${shorter}`);
  await putBack(database, "keys", kept.keys, `(id) DO UPDATE SET ${keyChanges(kept.keys, withKeys)}`);
  await dropMarks(database);

  const { pets, highestId: raisedId } = await petsOf(database);
  return { pets, nextId: BigInt(raisedId) + 1n, migrations };
}

/** How a key that is there before and after becomes one: all from one side, but what has ended on either has ended. */
function keyChanges([row = {}]: Row[], withKeys: boolean): string {
  const [taken, other] = withKeys ? ["keys", "excluded"] : ["excluded", "keys"];
  const isReplaced = `${taken}.hash IN (SELECT hash FROM replaced_secrets)`;
  const change = (column: string) => {
    if (column === "revoked_at_ms") return "coalesce(keys.revoked_at_ms, excluded.revoked_at_ms)";
    const isOfSecret = column === "hash" || column === "last_four";
    return isOfSecret ? `iif(${isReplaced}, ${other}.${column}, ${taken}.${column})` : `${taken}.${column}`;
  };
  return Object.keys(row)
    .map((column) => `${column} = ${change(column)}`)
    .join(", ");
}

async function petsOf(database: D1Database): Promise<{ pets: number; highestId: string }> {
  const row = await read(() => database.prepare(SELECT_PETS).first<{ pets: number; highestId: string }>());
  if (row === null) throw new Error("an aggregate gave no row");
  return row;
}

/** All rows, with whatever columns there are: so none that a migration adds is forgotten here. */
async function rowsOf(database: D1Database, table: string): Promise<Row[]> {
  const columns = (await columnsOf(database, table)).map(({ name, isBlob }) =>
    isBlob ? `hex(${name}) AS ${name}` : name,
  );
  const { results } = await read(() =>
    database.prepare(`SELECT ${columns.join(", ")} FROM ${table}`).all<Row>(),
  );
  return results;
}

/** Puts rows into a table. `conflict` says what happens to one that is there. */
async function putBack(database: D1Database, table: string, rows: Row[], conflict: string): Promise<void> {
  const names = Object.keys(rows[0] ?? {});
  const columns = (await columnsOf(database, table)).filter(({ name }) => names.includes(name));
  const values = columns.map(({ name, isBlob }) =>
    isBlob ? `unhex(value ->> '${name}')` : `value ->> '${name}'`,
  );
  const sql = `
    INSERT INTO ${table} (${columns.map(({ name }) => name).join(", ")})
    SELECT ${values.join(", ")} FROM json_each(?1) WHERE true ON CONFLICT ${conflict}`;
  for (let done = 0; done < rows.length; done += ROWS_PER_STATEMENT) {
    const some = JSON.stringify(rows.slice(done, done + ROWS_PER_STATEMENT));
    await writeOnce(() => database.prepare(sql).bind(some).run());
  }
}

async function columnsOf(database: D1Database, table: string) {
  const columns = database.prepare(SELECT_COLUMNS).bind(table);
  const { results } = await read(() => columns.all<{ name: string; type: string }>());
  if (results.length > 0) return results.map(({ name, type }) => ({ name, isBlob: type === "BLOB" }));
  throw new Error(`there is no table ${table}`);
}

/** Takes one call, because until it has arrived old ids are given. */
async function raiseSequence(database: D1Database, highestId: bigint): Promise<void> {
  const raise = database.prepare(RAISE_SEQUENCE).bind(`${highestId}`);
  await writeOnce(() => database.batch([database.prepare(INSERT_SEQUENCE), raise]));
}

async function marksOf(database: D1Database): Promise<string[]> {
  const { results } = await read(() => database.prepare(SELECT_MARKS).all<{ name: string }>());
  return results.map(({ name }) => name);
}

/** Also those that came back with a database: a restore may lead to a moment within an earlier one. */
async function dropMarks(database: D1Database): Promise<void> {
  for (const mark of await marksOf(database)) {
    await writeOnce(() => database.prepare(`DROP TABLE IF EXISTS ${mark}`).run());
  }
}
