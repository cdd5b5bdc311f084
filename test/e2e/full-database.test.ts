// A full database of keys: in an incident, it must still be possible to end keys. D1 lets nobody limit its size, so this is SQLite without
// D1, behind the fake of Cloudflare's API. test/worker/faults.test.ts has the responses to clients while the pets' database is full.

import { assert, beforeAll, expect, it } from "vitest";
import { migrate } from "../../scripts/cloudflare/database.ts";
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
import { memoryAccount } from "../support/e2e/cloudflare-api.ts";
import { failure, runPetstore } from "../support/e2e/in-process.ts";
import { useAccount } from "../support/e2e/use-account.ts";

/** Hundreds of keys on many pages, of which some are in the middle of the tree. */
const MAX_PAGES = 50;
const MAX_NAME_LENGTH = 255;

const { databaseOf } = await useAccount(["petstore-keys"], memoryAccount());
const database = databaseOf("petstore-keys");
const operator = () => ({ by: "a test", nowMs: Date.now() });

async function run<Row>(sql: string, ...values: (string | number)[]): Promise<Row[]> {
  const statement = database.prepare(sql);
  return (await statement.bind(...values).all<Row>()).results;
}

const ifFull = (error: Error) => {
  if (/SQLITE_FULL/.test(error.message)) return undefined;
  throw error;
};

/** Repeats a statement, which returns rows, until it fits nowhere. */
async function fill(sql: string, ...values: (string | number)[]): Promise<void> {
  while ((await run(`${sql} RETURNING 1`, ...values).catch(ifFull))?.length);
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
  await migrate(database, "keys");
  await run(`PRAGMA max_page_count = ${MAX_PAGES}`);
  ids = await createKeys();
  // Longer names fill the page of each key to its last bytes; then the record of changes.
  for (const length of [30, 5, 1])
    for (const id of ids)
      await fill(
        `UPDATE keys SET name = name || ?2 WHERE id = ?1 AND length(name) <= ${MAX_NAME_LENGTH - length}`,
        id,
        "n".repeat(length),
      );
  await fill("INSERT INTO key_changes (key_id, at_ms, change, changed_by) VALUES ('', 1, '', '')");
  // It has a grace that can be ended.
  const [graced] = await run<{ id: string }>("SELECT key_id AS id FROM replaced_secrets ORDER BY key_id");
  commandId = `${graced?.id}`;
  ids.splice(ids.indexOf(commandId), 1);
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
  expect(await run(left, Date.now(), commandId)).toEqual([]);
  const [replaced] = await run<{ count: number }>("SELECT count(*) AS count FROM replaced_secrets");
  expect(replaced?.count).toBeGreaterThan(ids.length / 4);
});

it("commands say what to note down, and what a full database does not permit", async () => {
  const command = (line: string) => runPetstore(`keys ${line.replace("ID", commandId)} --remote`);
  for (const [line, done] of [
    ["access ID read", "changed the access of ID (read)"],
    ["suspend ID --reason unpaid", "suspended ID (unpaid)"],
    ["resume ID", "resumed ID"],
    ["unban ID", "lifted any ban of ID"],
    ["end-grace ID --yes", "ended all replaced keys of ID"],
    ["revoke ID --yes", "revoked ID"],
  ] as const) {
    const warning = `warning: the database of keys is full: the change was made, but not recorded. Note down: \\S+Z Ann ${done.replace("ID", commandId)}`;
    const { exitCode, stderr } = await command(`${line} --by Ann`);
    expect(exitCode).toBe(0);
    expect(stderr.replace(/[()]/g, "")).toMatch(new RegExp(`^${warning.replace(/[()]/g, "")}\n`, "m"));
    if (line.startsWith("resume"))
      for (const refused of ["rotate ID --yes", "rename ID other", "plan ID pro"])
        expect(await command(refused)).toMatchObject(
          failure(
            1,
            "error: the database is full: nothing was written; access, suspend, resume, revoke, end-grace and unban need no room in it, only on the disk",
          ),
        );
  }
  expect(JSON.parse((await command("show ID --json")).stdout)).toMatchObject({ state: "revoked" });
});
