// Local databases, which commands open as files.

import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it, onTestFinished } from "vitest";
import {
  createDatabases,
  databaseFile,
  type OpenDatabases,
  openDatabases,
  setAsideOther,
} from "../../scripts/cloudflare/database.ts";
import { DatabaseUnavailable, read, write } from "../../src/d1/statements.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { emptyState, runScript } from "../support/e2e/petstore.ts";

async function newDatabase(): Promise<{ state: string; keys: OpenDatabases["keys"] }> {
  const { state, remove } = await emptyState();
  const { keys, close } = await createDatabases({ kind: "local", state }, "keys");
  onTestFinished(() => close().then(remove));
  return { state, keys };
}

it("npm start sets aside a database whose tables other migrations have made, and no other", async () => {
  const { state, remove } = await emptyState();
  onTestFinished(remove);
  await runPetstore(["migrate", "--persist-to", state]);
  expect(await setAsideOther(state, "pets")).toBeUndefined();
  const { pets, close } = await openDatabases({ kind: "local", state }, "pets");
  await pets.prepare("ALTER TABLE creations RENAME COLUMN request_hash TO old_name").run();
  await close();
  const path = `${await setAsideOther(state, "pets")}`;
  expect(await setAsideOther(state, "keys")).toBeUndefined();
  expect(existsSync(databaseFile(state, "pets"))).toBe(false);
  const columns = new DatabaseSync(path).prepare("SELECT old_name FROM creations").columns();
  expect(columns).toHaveLength(1);
});

it("a batch is a transaction, which gives the results of each statement", async () => {
  const { keys } = await newDatabase();
  const insert = (value: number) => keys.prepare("INSERT INTO one VALUES (?1) RETURNING value").bind(value);
  await keys.batch([keys.prepare("CREATE TABLE one (value INTEGER UNIQUE) STRICT"), insert(1)]);
  await expect(keys.batch([insert(2), insert(1)])).rejects.toThrow("SQLITE_CONSTRAINT");
  const [inserted, all] = await keys.batch([insert(3), keys.prepare("SELECT value FROM one ORDER BY 1")]);
  expect([inserted?.results, all?.results]).toEqual([[{ value: 3 }], [{ value: 1 }, { value: 3 }]]);
  expect(all?.meta.size_after).toBe(12_288);
});

it("a batch that reads does not wait for a writer, and one that writes does", async () => {
  const { keys, state } = await newDatabase();
  const run = (sql: string) => keys.batch([keys.prepare("SELECT 1"), keys.prepare(sql)]);
  await run("CREATE TABLE t (value INTEGER) STRICT");
  await lock(keys, state);
  for (const sql of ["SELECT * FROM t", "WITH u AS (SELECT * FROM t) SELECT 'replaced_secrets' FROM u"])
    expect(await run(sql)).toMatchObject([{}, { results: [] }]);
  for (const sql of [
    "DELETE FROM t",
    "WITH u AS (SELECT 1) INSERT INTO t SELECT * FROM u",
    "UPDATE t SET value = 1",
  ])
    await expect(run(sql)).rejects.toThrow("SQLITE_BUSY");
});

/** Another connection writes, for which these statements don't wait. */
async function lock(keys: D1Database, state: string): Promise<void> {
  const other = await openDatabases({ kind: "local", state }, "keys");
  onTestFinished(other.close);
  await keys.prepare("PRAGMA busy_timeout = 0").all();
  await other.keys.prepare("BEGIN IMMEDIATE").run();
}

it("a wrong statement is no fault of the database, which a locked one is", async () => {
  const { keys, state } = await newDatabase();
  const problem = read(() => keys.prepare("SELECT * FROM nowhere").all());
  await expect(problem).rejects.toThrow("no such table: nowhere: SQLITE_ERROR");
  await expect(problem).rejects.not.toBeInstanceOf(DatabaseUnavailable);
  await lock(keys, state);
  const locked = write(() => keys.prepare("CREATE TABLE two (value INTEGER)").run());
  await expect(locked).rejects.toThrow("database is locked: SQLITE_BUSY");
  await expect(locked).rejects.toBeInstanceOf(DatabaseUnavailable);
});

it("commands that write at the same time wait for each other", async () => {
  const { state, keys } = await newDatabase();
  await runPetstore(["migrate", "--persist-to", state]);
  const create = async (letter: string) => {
    const file = join(state, `${letter}.csv`);
    const lines = Array.from({ length: 500 }, (_, index) => `${letter} ${index},free`);
    await writeFile(file, ["name,plan", ...lines].join("\n"));
    return runScript("scripts/petstore.ts", ["keys", "create", "--from", file, "--persist-to", state]);
  };
  for (const { exitCode, stderr } of await Promise.all(["a", "b", "c"].map(create)))
    expect([exitCode, stderr]).toEqual([0, expect.stringMatching(/\nCreated 500 keys\b.*\n$/)]);
  expect(await keys.prepare("SELECT count(*) AS count FROM keys").first()).toEqual({ count: 1_500 });
});
