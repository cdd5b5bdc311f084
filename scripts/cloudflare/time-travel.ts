// The steps of a restore with D1 Time Travel, which puts a whole database back, in place. This file sees to it that no
// promise goes back with it: an id is given once, and a key or secret that has ended stays ended. What has to be known
// for that is in a file before anything changes, so that a restore that breaks off anywhere can be gone on with.
//
// It doesn't stop the service. Between the restore and the first statement after it, a creation gets an old id.

import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { read, writeIdempotent } from "../../src/d1/statements.ts";
import { CloudflareApiError } from "./account.ts";
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

/** What a change of plan sets. If a plan was changed before and after, the later change stays. */
const PLAN_COLUMNS = ["plan", "per_minute", "per_day", "plan_set_at_ms"];

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

/** With some dozens of replaced secrets each, these are well below the 2 MB that one parameter may have. */
const KEYS_PER_STATEMENT = 100;

const SELECT_PETS = `
  SELECT count(*) AS pets, CAST(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'pets'), 0) AS TEXT) AS highestId
  FROM pets`;
// The table knows pets only after the first one. Its columns have no type, so a text would stay one.
const INSERT_SEQUENCE = `
  INSERT INTO sqlite_sequence (name, seq)
  SELECT 'pets', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'pets')`;
const RAISE_SEQUENCE = "UPDATE sqlite_sequence SET seq = max(seq, CAST(?1 AS INTEGER)) WHERE name = 'pets'";
const SELECT_COLUMNS = "SELECT name, type FROM pragma_table_info('keys')";
const SELECT_REPLACED = "SELECT hex(hash) AS hash, key_id, good_until_ms FROM replaced_secrets";
const SELECT_MARKS = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'restoring_*'";

// ?1: kept keys, ?2: their replaced secrets. Runs after the keys were merged, so a key whose current secret is not the kept
// one was rotated after the restore. That rotation also ends the kept secrets, when it ended the last of those it found.
const PUT_REPLACED_BACK = `
  INSERT INTO replaced_secrets (hash, key_id, good_until_ms)
  WITH kept AS (
    SELECT unhex(value ->> 'hash') AS hash, value ->> 'key_id' AS key_id, value ->> 'good_until_ms' AS good_until_ms
    FROM json_each(?2)
  ), rotated AS (
    SELECT keys.id AS key_id, unhex(value ->> 'hash') AS kept_hash,
      (SELECT max(good_until_ms) FROM replaced_secrets
       WHERE key_id = keys.id AND hash IN (SELECT hash FROM kept UNION SELECT unhex(value ->> 'hash'))) AS end_ms
    FROM json_each(?1) JOIN keys ON keys.id = value ->> 'id' AND keys.hash <> unhex(value ->> 'hash')
  )
  SELECT kept_hash, key_id, coalesce(end_ms, 1) FROM rotated
  UNION ALL
  SELECT hash, key_id, min(good_until_ms, coalesce(end_ms, good_until_ms)) FROM kept LEFT JOIN rotated USING (key_id)
  WHERE true ON CONFLICT (hash) DO UPDATE SET good_until_ms = min(good_until_ms, excluded.good_until_ms)`;

/** Reads what a restore must not lose. */
export async function keep(database: D1Database): Promise<Kept> {
  const columns = (await keyColumns(database)).map(({ name, isBlob }) =>
    isBlob ? `hex(${name}) AS ${name}` : name,
  );
  const pets = await petsOf(database);
  // Last, because the restore undoes every later change of a key. In one batch, so that both show the same moment.
  const [keys, replaced] = await read(() =>
    database.batch<Row>([
      database.prepare(`SELECT ${columns.join(", ")} FROM keys`),
      database.prepare(SELECT_REPLACED),
    ]),
  );
  if (keys === undefined || replaced === undefined) throw new Error("a statement gave no result");
  return { ...pets, keys: keys.results, replacedSecrets: replaced.results };
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
  // Not again on --resume: Cloudflare may still be working on an earlier restore, which removes the table.
  if (restore.kept === undefined) {
    await writeIdempotent(() =>
      database.prepare(`CREATE TABLE IF NOT EXISTS ${restore.mark} (id INTEGER) STRICT`).run(),
    );
  }
  const undo = await timeTravel.bookmark();
  const kept = await keep(database);
  if (restore.kept !== undefined && !(await marksOf(database)).includes(restore.mark)) return restore.kept;
  announce(undo);
  await writeFile(file, JSON.stringify({ ...restore, kept }), { mode: 0o600 });
  try {
    await timeTravel.restore(restore.bookmark);
  } catch (error) {
    // Refused, so nothing has happened. After anything else, that is unknown.
    if (error instanceof CloudflareApiError && error.status < 500) await rm(file);
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

  await putKeysBack(database, kept, withKeys);
  await dropMarks(database);

  const { pets, highestId: raisedId } = await petsOf(database);
  return { pets, nextId: BigInt(raisedId) + 1n, migrations };
}

/** Merges the keys that were kept into those that are there. All may be done again, also after more changes. */
async function putKeysBack(database: D1Database, kept: Kept, withKeys: boolean): Promise<void> {
  const [row = {}] = kept.keys;
  const columns = (await keyColumns(database)).filter(({ name }) => Object.hasOwn(row, name));
  const values = columns.map(({ name, isBlob }) =>
    isBlob ? `unhex(value ->> '${name}')` : `value ->> '${name}'`,
  );
  const putKeys = `
    INSERT INTO keys (${columns.map(({ name }) => name).join(", ")})
    SELECT ${values.join(", ")} FROM json_each(?1)
    WHERE true ON CONFLICT (id) DO UPDATE SET
    ${columns.map(({ name }) => `${name} = ${merged(name, withKeys)}`).join(", ")}`;
  for (let done = 0; done < kept.keys.length; done += KEYS_PER_STATEMENT) {
    const keys = kept.keys.slice(done, done + KEYS_PER_STATEMENT);
    const ids = new Set(keys.map(({ id }) => id));
    const replaced = kept.replacedSecrets.filter(({ key_id: id = null }) => ids.has(id));
    const both = [JSON.stringify(keys), JSON.stringify(replaced)];
    const statements = [putKeys, PUT_REPLACED_BACK].map((sql) => database.prepare(sql).bind(...both));
    await writeIdempotent(() => database.batch(statements));
  }
}

/** What a column of a key becomes: `keys` is the key that is there, with the changes since; `excluded` the kept one. */
function merged(column: string, withKeys: boolean): string {
  const [there, kept] = [`keys.${column}`, `excluded.${column}`];
  // What has ended on either side has ended.
  if (column === "revoked_at_ms") return `coalesce(${there}, ${kept})`;
  // A secret that was not kept, not even as a replaced one, was made since.
  if (column === "hash" || column === "last_four")
    return `iif(keys.hash IN (SELECT unhex(value ->> 'hash') FROM json_each(?2)), ${kept}, ${there})`;
  if (withKeys) return there;
  const isLater = "coalesce(keys.plan_set_at_ms, 0) > coalesce(excluded.plan_set_at_ms, 0)";
  return PLAN_COLUMNS.includes(column) ? `iif(${isLater}, ${there}, ${kept})` : kept;
}

async function petsOf(database: D1Database): Promise<{ pets: number; highestId: string }> {
  const row = await read(() => database.prepare(SELECT_PETS).first<{ pets: number; highestId: string }>());
  if (row === null) throw new Error("an aggregate gave no row");
  return row;
}

/** Whatever columns there are: so none that a migration adds is forgotten here. */
async function keyColumns(database: D1Database) {
  const { results } = await read(() =>
    database.prepare(SELECT_COLUMNS).all<{ name: string; type: string }>(),
  );
  if (results.length > 0) return results.map(({ name, type }) => ({ name, isBlob: type === "BLOB" }));
  throw new Error("there is no table keys");
}

/** Takes one call, because until it has arrived old ids are given. */
async function raiseSequence(database: D1Database, highestId: bigint): Promise<void> {
  const raise = database.prepare(RAISE_SEQUENCE).bind(`${highestId}`);
  await writeIdempotent(() => database.batch([database.prepare(INSERT_SEQUENCE), raise]));
}

async function marksOf(database: D1Database): Promise<string[]> {
  const { results } = await read(() => database.prepare(SELECT_MARKS).all<{ name: string }>());
  return results.map(({ name }) => name);
}

/** Also those that came back with a database: a restore may lead to a moment within an earlier one. */
async function dropMarks(database: D1Database): Promise<void> {
  for (const mark of await marksOf(database)) {
    await writeIdempotent(() => database.prepare(`DROP TABLE IF EXISTS ${mark}`).run());
  }
}
