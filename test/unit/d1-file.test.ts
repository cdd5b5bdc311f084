// Local databases, while another process writes. That they give the service's results, the tests of the commands show.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { d1OnFile } from "../../scripts/cloudflare/d1-file.ts";

it("a batch that reads does not wait for a writer, and one that writes does", async () => {
  const folder = mkdtempSync(join(tmpdir(), "petstore-test-"));
  const [reading, writing] = [0, 1].map(() => d1OnFile(join(folder, "a.sqlite"), "keys"));
  onTestFinished(() => {
    for (const each of [reading, writing]) each?.close();
    rmSync(folder, { recursive: true });
  });
  const database = reading?.database as D1Database;
  const run = (sql: string) => database.batch([database.prepare("SELECT 1"), database.prepare(sql)]);
  await run("CREATE TABLE t (value INTEGER) STRICT");
  await database.prepare("PRAGMA busy_timeout = 0").all();
  await writing?.database.prepare("BEGIN IMMEDIATE").run();
  for (const sql of ["SELECT * FROM t", "WITH u AS (SELECT * FROM t) SELECT 'replaced_secrets' FROM u"])
    expect(await run(sql)).toMatchObject([{}, { results: [] }]);
  for (const sql of [
    "DELETE FROM t",
    "WITH u AS (SELECT 1) INSERT INTO t SELECT * FROM u",
    "UPDATE t SET value = 1",
  ])
    await expect(run(sql)).rejects.toThrow("SQLITE_BUSY");
});
