// ./petstore migrate on local databases, in a copy of the migrations, which the test changes.

import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openDatabases } from "../../scripts/cloudflare/database.ts";
import { insertPet } from "../../src/pets/store.ts";
import { runPetstore } from "../support/e2e/in-process.ts";

const project = resolve(".");
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  for (const name of ["migrations", "wrangler.toml"]) await cp(name, join(folder, name), { recursive: true });
  process.chdir(folder);
});
afterAll(async () => {
  process.chdir(project);
  await rm(folder, { recursive: true });
});

const migrate = () => runPetstore("migrate");

it("applies what is pending, once; a migration that fails is named, and leaves nothing", async () => {
  const write = (sql: string) => writeFile(join(folder, "migrations/pets/9999_collars.sql"), sql);
  await write("CREATE TABLE collars (id INTEGER);\nINSERT INTO nowhere VALUES (1);");
  const failed = await migrate();
  expect([failed.exitCode, failed.stdout]).toEqual([
    1,
    expect.stringMatching(/^Applied keys\/0001_keys\.sql, .*\.sql to a new database\.\n$/),
  ]);
  expect(failed.stderr).toMatch(
    /^error: migrations\/pets\/9999_collars.sql failed: .*no such table: nowhere/m,
  );

  const { pets, close } = await openDatabases(
    { kind: "local", state: join(folder, ".wrangler/state") },
    "pets",
  );
  await insertPet(pets, { name: "Rex", categoryId: 1n }).finally(close);
  await write(
    "CREATE TABLE collars (id INTEGER);\nALTER TABLE pets ADD COLUMN collar INTEGER DEFAULT 0 CHECK (collar > 0);",
  );
  expect(await migrate()).toMatchObject({
    exitCode: 1,
    stderr: expect.stringMatching(/9999_collars.sql failed: CHECK constraint failed/),
  });

  await write("CREATE TABLE collars (id INTEGER);");
  const repaired = await migrate();
  const nothing = "No pending migrations of keys.\n";
  expect(repaired).toMatchObject({ exitCode: 0, stdout: `${nothing}Applied pets/9999_collars.sql.\n` });
  expect((await migrate()).stdout).toBe(`${nothing}No pending migrations of pets.\n`);

  // Its rows refer to one that exists only at its end. Not every semicolon ends a statement.
  const trigger = "CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT ';'; SELECT 2; END;";
  const deferred =
    "-- One; two\nPRAGMA defer_foreign_keys = on; CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a INTEGER REFERENCES a); INSERT INTO b VALUES (1); INSERT INTO a VALUES (1);";
  await writeFile(
    join(folder, "migrations/pets/99991_deferred.sql"),
    `${deferred}${trigger}; /* a; */\n-- b;\n/* c;`,
  );
  expect(await migrate()).toMatchObject({ exitCode: 0 });
  expect(await runPetstore("status")).toMatchObject({
    exitCode: 0,
    stdout: expect.not.stringContaining("FOREIGN KEY"),
  });
});
