// A full database of keys: in an incident, it must still be possible to end keys. D1 lets nobody limit its size, so this is SQLite without
// D1, behind the fake of Cloudflare's API. test/worker/faults.test.ts has the responses to clients while the pets' database is full.

import { readdirSync, readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { afterAll, assert, beforeAll, expect, it, vi } from "vitest";
import { DatabaseFull } from "../../src/d1/statements.ts";
import {
  changeAccess,
  createKey,
  endGraces,
  resumeKey,
  revokeKey,
  rotateKey,
  suspendKey,
  unbanKey,
} from "../../src/operators/admin.ts";
import { databaseOf, type Statement, startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { failure, runPetstore } from "../support/e2e/in-process.ts";

/** Hundreds of keys on many pages, of which some are in the middle of the tree. */
const MAX_PAGES = 50;
const MAX_NAME_LENGTH = 255;
/** SQLITE_FULL. */
const FULL = 13;

const sqlite = new DatabaseSync(":memory:");
const account = { query, routes: {} };
const api = await startCloudflareApi(account, ["petstore-keys"]);
const database = databaseOf(account, "petstore-keys");
const operator = () => ({ by: "a test", nowMs: Date.now() });

/** Runs a batch as D1 does: in a transaction. */
async function query(_: string, statements: Statement[]) {
  sqlite.exec("BEGIN");
  try {
    const run = ({ sql, params = [] }: Statement) => sqlite.prepare(sql).all(...params);
    const results = statements.map((each) => ({ results: run(each), success: true, meta: {} }));
    sqlite.exec("COMMIT");
    return results;
  } catch (error) {
    if (sqlite.isTransaction) sqlite.exec("ROLLBACK");
    throw isFull(error) ? new Error("D1_ERROR: database or disk is full: SQLITE_FULL") : error;
  }
}

const isFull = (error: unknown) => (error as { errcode?: number }).errcode === FULL;

/** Repeats a statement until it fits nowhere. */
function fill(sql: string, ...parameters: (string | number)[]): void {
  const statement = sqlite.prepare(sql);
  try {
    while (Number(statement.run(...parameters).changes) > 0);
  } catch (error) {
    if (!isFull(error)) throw error;
  }
}

/** Keys with names of all lengths, a third of them with a grace. The last one could not be made: the database was full. */
async function createKeys(): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const length = 1 + ((ids.length * 101) % MAX_NAME_LENGTH);
    const newKey = { name: "n".repeat(length), plan: "free", expiresAtMs: null } as const;
    const created = await createKey(database, newKey, operator()).catch((error) => error);
    if (created instanceof DatabaseFull) return ids;
    ids.push(created.key.id);
    if (ids.length % 3 === 0)
      await rotateKey(database, created.key.id, 86_400_000, operator()).catch(() => {});
  }
}

let ids: string[];
/** One more. */
let commandId: string;

beforeAll(async () => {
  for (const [name, value] of Object.entries(api.environment)) vi.stubEnv(name, value);
  const folder = "migrations/keys";
  for (const file of readdirSync(folder).sort()) sqlite.exec(readFileSync(`${folder}/${file}`, "utf8"));
  sqlite.exec("CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY, name TEXT)");
  for (const file of readdirSync(folder))
    sqlite.prepare("INSERT INTO d1_migrations (name) VALUES (?1)").run(file);
  sqlite.exec(`PRAGMA max_page_count = ${MAX_PAGES}`);
  ids = await createKeys();
  // Longer names fill the page of each key to its last bytes; then the record of changes.
  for (const length of [30, 5, 1])
    for (const id of ids)
      fill(
        `UPDATE keys SET name = name || ?2 WHERE id = ?1 AND length(name) <= ${MAX_NAME_LENGTH - length}`,
        id,
        "n".repeat(length),
      );
  fill("INSERT INTO key_changes (key_id, at_ms, change, changed_by) VALUES ('', 1, '', '')");
  // It has a grace that can be ended.
  const graced = "SELECT key_id FROM replaced_secrets ORDER BY key_id";
  commandId = `${sqlite.prepare(graced).get()?.key_id}`;
  ids.splice(ids.indexOf(commandId), 1);
});

afterAll(() => {
  api.stop();
});

it("many rows have no room for a time: to store one, SQLite needs another page", async () => {
  const update = sqlite.prepare("UPDATE keys SET revoked_at_ms = ?2 WHERE id = ?1");
  const needsPage = (id: string) => {
    sqlite.exec("BEGIN");
    try {
      update.run(id, Date.now());
      return false;
    } catch (error) {
      return isFull(error);
    } finally {
      if (sqlite.isTransaction) sqlite.exec("ROLLBACK");
    }
  };
  // Mostly more than half of them: it depends on where their random ids lie.
  expect(ids.filter(needsPage).length).toBeGreaterThan(ids.length / 3);
});

it("the access of every key can be changed, every key can be suspended, resumed, unbanned and revoked, and its graces ended, although nothing fits into the record", async () => {
  let unrecorded = 0;
  for (const change of [
    (id: string) => changeAccess(database, id, "read", operator()),
    (id: string) => changeAccess(database, id, "write", operator()),
    (id: string) => changeAccess(database, id, "read", operator()),
    (id: string) => suspendKey(database, id, "leaked", false, operator()),
    (id: string) => suspendKey(database, id, "unpaid", true, operator()),
    (id: string) => resumeKey(database, id, null, operator()),
    (id: string) => unbanKey(database, id, operator()),
    (id: string) => endGraces(database, id, operator()),
    (id: string) => suspendKey(database, id, "leaked", false, operator()),
    (id: string) => revokeKey(database, id, operator()),
  ])
    for (const id of ids) {
      const changed = await change(id);
      assert(changed.ok);
      if (!changed.isRecorded) unrecorded += 1;
    }
  // The record of a few still fits into a page of its index.
  expect(unrecorded).toBeGreaterThan(4 * ids.length);
  const left = `
    SELECT id FROM keys LEFT JOIN replaced_secrets ON key_id = id WHERE id <> ?2
      AND (revoked_at_ms IS NULL OR read_only IS NULL OR suspended_at_ms IS NULL OR bans_lifted_until_ms <= ?1 OR good_until_ms > ?1)`;
  expect(sqlite.prepare(left).all(Date.now(), commandId)).toEqual([]);
  const replaced = sqlite.prepare("SELECT count(*) AS count FROM replaced_secrets").get();
  expect(replaced?.count).toBeGreaterThan(ids.length / 4);
});

it("commands say what to note down, and what a full database does not permit", async () => {
  const run = (line: string) => runPetstore(`keys ${line.replace("ID", commandId)} --remote`);
  for (const [line, done] of [
    ["access ID read", "changed the access of ID (read)"],
    ["suspend ID --reason unpaid", "suspended ID (unpaid)"],
    ["resume ID", "resumed ID"],
    ["unban ID", "lifted any ban of ID"],
    ["end-grace ID --yes", "ended all replaced keys of ID"],
    ["revoke ID --yes", "revoked ID"],
  ] as const) {
    const warning = `warning: the database of keys is full: the change was made, but not recorded. Note down: \\S+Z Ann ${done.replace("ID", commandId)}`;
    const { exitCode, stderr } = await run(`${line} --by Ann`);
    expect(exitCode).toBe(0);
    expect(stderr.replace(/[()]/g, "")).toMatch(new RegExp(`\n${warning.replace(/[()]/g, "")}\n`));
    if (line.startsWith("resume"))
      for (const refused of ["rotate ID --yes", "rename ID other", "plan ID pro"])
        expect(await run(refused)).toMatchObject(
          failure(
            1,
            "error: the database is full: nothing was written; access, suspend, resume, revoke, end-grace and unban need no room in it, only on the disk",
          ),
        );
  }
  expect(JSON.parse((await run("show ID --json")).stdout)).toMatchObject({ state: "revoked" });
});
