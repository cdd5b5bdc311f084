// ./petstore status, on a fake of Cloudflare's API, and on local databases with a service that answers.

import { cp, open, truncate } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { recordBackup } from "../../scripts/backup/backup.ts";
import {
  CONTENTS,
  createDatabases,
  databaseFile,
  migrate,
  openDatabases,
} from "../../scripts/cloudflare/database.ts";
import { createKey, revokeKey } from "../../src/operators/admin.ts";
import { apiError, DATABASES, memoryAccount } from "../support/e2e/cloudflare-api.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { emptyState } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";
import { useAccount } from "../support/e2e/use-account.ts";

const petstore = sharedPetstore();
interface Query {
  timeframe: { from: number; to: number };
  parameters: { filters: { value: string }[]; calculations: { operator: string; key?: string }[] };
}

/** What the API answers to a query of the log. */
let answer: (query: Query) => object;
/** The size that D1 states, if not the true one. */
let size: number | undefined;
const account = memoryAccount();
const { api, databaseOf } = await useAccount(DATABASES, {
  async query(...request) {
    const results = (await account.query(...request)) as D1Result[];
    for (const { meta } of results) meta.size_after = size ?? meta.size_after;
    return results;
  },
  routes: { "POST /workers/observability/telemetry/query": async ({ req }) => answer(await req.json()) },
});
const keys = databaseOf("petstore-keys");
const run = (sql: string, ...values: unknown[]) =>
  keys
    .prepare(sql)
    .bind(...values)
    .run();

beforeAll(async () => {
  await migrate(keys, "keys");
  await migrate(databaseOf("petstore-pets"), "pets");
});

function setSize(bytes: number): void {
  size = bytes;
  onTestFinished(() => {
    size = undefined;
  });
}

/** The lines of the status, such as `Keys: 1: 1 active`. */
async function lines(line: string, expected = 0): Promise<string[]> {
  const { exitCode, stdout } = await runPetstore(`status ${line}`);
  expect(exitCode).toBe(expected);
  return stdout.split("\n").map((each) => each.replace(/ {2,}/, ": "));
}

async function json(line: string) {
  const { exitCode, stdout } = await runPetstore(`status ${line} --json`);
  expect(exitCode).toBe(0);
  return JSON.parse(stdout);
}

describe("of production", () => {
  beforeAll(async () => {
    const operator = { by: "a test", nowMs: Date.now() };
    const create = () => createKey(keys, { name: "Ann", plan: "free", expiresAtMs: null }, operator);
    const [, second, third] = [await create(), await create(), await create()];
    await revokeKey(keys, second.key.id, operator);
    const until = new Date(Date.now() + 600_000).toISOString().replace(/\.\d+/, "");
    const ban = "INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by)";
    await run(`${ban} VALUES (?1, ?2, 'banned', ?3, 'a test')`, third.key.id, Date.now(), until);
  });

  it("shows build, databases, keys by state, and the last hour by status", async () => {
    const queries: Query[] = [];
    answer = (query) => {
      queries.push(query);
      const values = { count: [1_200, 30, 4], median: [3.4, 1, 5_000], p95: [20.6, 2, 5_001] };
      const statuses = ["200", "429", "503"].map((value) => [{ key: "status", value }]);
      const calculations = query.parameters.calculations.map(({ operator }) => ({
        aggregates: values[operator as keyof typeof values].map((value, index) => ({
          value,
          groups: statuses[index],
        })),
      }));
      return { calculations, statistics: { abr_level: 1 } };
    };
    expect(await lines(`--remote --url ${petstore.origin}`)).toEqual([
      `Build: development at ${petstore.origin}`,
      expect.stringMatching(/^Keys database: [\d.]+ MB used, 0% of 10 GB; no pending migrations$/),
      expect.stringMatching(/^Pets database: [\d.]+ MB used, 0% of 10 GB; no pending migrations$/),
      "Growth: unknown: two days of the last 30 are needed, and the cron trigger records one a day",
      "Backup: none yet",
      "Restore: none is unfinished",
      "Keys: 3: 1 active, 1 banned, 1 revoked",
      "Last hour: 1,234 requests, 4 with a status of 500 or above",
      "",
      "STATUS: REQUESTS  MEDIAN MS  P95 MS",
      "200: 1,200          3      21",
      "429: 30          1       2",
      "503: 4      5,000   5,001",
      "",
    ]);
    const [{ timeframe, parameters } = { timeframe: { from: 0, to: 0 } }] = queries;
    expect(timeframe.to - timeframe.from).toBe(3_600_000);
    expect(parameters?.filters.map(({ value }) => value)).toEqual(["petstore", "request"]);
    const { keysDatabase, lastHour } = await json("--remote");
    // Whole pages, and more than the empty database.
    expect([keysDatabase.bytes % 4_096, keysDatabase.bytes > 8 * 4_096]).toEqual([0, true]);
    expect(lastHour.statuses[2]).toEqual({ status: 503, requests: 4, medianMs: 5_000, p95Ms: 5_001 });
  });

  it("says what it can't read, and shows the rest", async () => {
    answer = () => {
      throw apiError(403, 10_000, "Authentication error");
    };
    const began = Date.parse("2026-11-20T12:00:00Z");
    await run("INSERT INTO pet_restores (began_at_ms, begun_by, bookmark) VALUES (?1, 'Jo', 'b')", began);
    onTestFinished(async () => void (await run("DELETE FROM pet_restores")));
    const unfinished = { at: "2026-11-20T12:00:00Z", by: "Jo" };
    for (const [bookmark, finish] of [
      ["b", "./petstore restore --resume --remote"],
      ["file:0:keys+pets", "./petstore restore --from FILE --remote"],
      ["file:0:keys", "./petstore restore --from FILE --only keys --remote"],
    ]) {
      await run("UPDATE pet_restores SET bookmark = ?1", bookmark);
      expect((await json("--remote")).restore).toEqual({ unfinished: { ...unfinished, finish } });
    }
    expect(await lines("--remote")).toEqual(
      expect.arrayContaining([
        "Build: unknown: add --url URL",
        expect.stringMatching(/^Restore: unfinished, begun by Jo at 2026-11-20T12:00:00Z: finish it with /),
        "Keys: 3: 1 active, 1 banned, 1 revoked",
        "Last hour: unknown: the credential lacks the permission Workers Observability, which a token can have",
      ]),
    );
  });
});

describe("at a fixed time", () => {
  const NOW_MS = Date.parse("2026-11-28T03:17:00Z");
  const HOUR_MS = 3_600_000;
  beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOW_MS }));
  afterEach(async () => {
    vi.useRealTimers();
    for (const table of ["backups", "database_sizes"]) await run(`DELETE FROM ${table}`);
  });
  const failure = async (line: string) => {
    const { exitCode, stdout, stderr } = await runPetstore(`status ${line} --quiet`);
    return [exitCode, stdout.includes("Pets database"), stderr];
  };

  it("shows the latest backup, and fails with --backup-age if it is older or there is none", async () => {
    expect((await json("--remote")).backup).toEqual({ last: null });
    expect(await failure("--remote --backup-age 26")).toEqual([1, true, "error: there is no backup yet\n"]);
    await recordBackup(keys, { beganAtMs: NOW_MS - 144 * HOUR_MS - 999, madeBy: "root" });
    const shown = "Backup: last 2026-11-22T03:16:59Z, 6 days ago, by root";
    expect(await lines("--remote --backup-age 144")).toContain(shown);
    const last = { at: "2026-11-22T03:16:59Z", by: "root", ageSeconds: 144 * 3_600 };
    expect((await json("--remote")).backup).toEqual({ last });
    const late = "error: the latest backup is of 2026-11-22T03:16:59Z, 6 days ago: the limit is 143 hours\n";
    expect(await failure("--remote --backup-age 143")).toEqual([1, true, late]);
    // The clock of the machine that made it was wrong: nobody knows its age.
    await recordBackup(keys, { beganAtMs: NOW_MS + 27 * HOUR_MS, madeBy: "root" });
    const early = "error: the latest backup is of 2026-11-29T06:17:00Z, in 1 day: the limit is 26 hours\n";
    expect(await failure("--remote --backup-age 26")).toEqual([1, true, early]);
    expect(await lines("--remote")).toContain("Backup: last 2026-11-29T06:17:00Z, in 1 day, by root");
  });

  it("before the migration that adds the record, only --backup-age fails", async () => {
    for (const name of ["backups", "database_sizes"]) await run(`DROP TABLE ${name}`);
    await run("DELETE FROM d1_migrations WHERE name = '0009_backups_and_sizes.sql'");
    const pending = "migrations are pending: run ./petstore migrate --remote";
    expect(await lines("--remote")).toEqual(
      expect.arrayContaining([`Growth: unknown: ${pending}`, `Backup: unknown: ${pending}`]),
    );
    const unknown = `error: the latest backup is unknown: ${pending}\n`;
    expect(await failure("--remote --backup-age 26")).toEqual([1, true, unknown]);
    await migrate(keys, "keys");
  });

  it("shows how fast each database grows, and when it is full", async () => {
    setSize(200_000_000);
    const record = (...values: [day: string, contents: string, bytes: number]) =>
      run("INSERT INTO database_sizes VALUES (?1, ?2, ?3)", ...values);
    // A month ago it was larger: that day does not count any more.
    await record("2026-10-29", "keys", 900_000_000);
    await record("2026-10-30", "keys", 100_000_000);
    await record("2026-11-28", "keys", 129_000_000);
    await record("2026-11-28", "pets", 5);
    const one = "two days of the last 30 are needed, and the cron trigger records one a day";
    const first = "Growth: keys 1 MB a day in 29 days, full in 9,800 days (on Workers Free in 300)";
    expect(await lines("--remote")).toContain(`${first}; pets unknown: ${one}`);
    await record("2026-11-27", "pets", 7);
    const { growth } = await json("--remote");
    const full = { daysUntilFull: 9_800, daysUntilFullOnFree: 300 };
    expect(growth).toEqual({
      keys: { bytesPerDay: 1_000_000, days: 29, ...full },
      pets: { bytesPerDay: -2, days: 1, daysUntilFull: null, daysUntilFullOnFree: null },
    });
    const pets = "pets -0.000002 MB a day in 1 day, never full like this";
    expect(await lines("--remote")).toContain(`${first}; ${pets}`);
    setSize(9_999_000_000);
    const large = "Growth: keys 1 MB a day in 29 days, full in 1 day; pets";
    expect(await lines("--remote")).toContainEqual(expect.stringMatching(large));
  });
});

it("fails after all is shown if the service at a given URL or a database does not answer", async () => {
  // No Worker listens at port 9, "discard".
  const unanswered = "no service answers at http://127.0.0.1:9";
  const gone = "the database can't be reached: Cloudflare's API refused: gone (7500)";
  const unread = `the database of pets can't be read: ${gone}`;
  let lost = "petstore-pets/query";
  api.intercept(async (request, _, send) => {
    if (request.endsWith(lost)) throw apiError(500, 7500, "gone");
    await send();
  });
  onTestFinished(() => api.intercept());
  const { exitCode, stdout, stderr } = await runPetstore("status --remote --url http://127.0.0.1:9");
  expect(exitCode).toBe(1);
  expect(stdout).toMatch(
    new RegExp(`^Build +unknown: ${unanswered}\nKeys database +\\d.*\nPets database +unknown: `),
  );
  expect(stdout).toMatch(/\nKeys +/);
  expect(stderr).toContain(`\nerror: ${unanswered}; ${unread}\n`);
  lost = "petstore-keys/query";
  const keysLost = await runPetstore("status --remote");
  expect(keysLost.exitCode).toBe(1);
  expect(keysLost.stderr).toContain(`\nerror: the database of keys can't be read: ${gone}; ${gone}\n`);
  api.intercept();
  const pets = databaseOf("petstore-pets");
  await pets.prepare("ALTER TABLE pets RENAME TO lost").run();
  const tableLost = await runPetstore("status --remote");
  await pets.prepare("ALTER TABLE lost RENAME TO pets").run();
  expect([tableLost.exitCode, tableLost.stderr]).toEqual([
    1,
    expect.stringContaining("\nerror: tables are lost: pets\n"),
  ]);
});

it("compares the size of a database with Workers Free too if it may be on it", async () => {
  for (const [bytes, shown] of [
    [200_000_000, "200 MB used, 2% of 10 GB, or 40% of 500 MB on Workers Free;"],
    [600_000_000, "600 MB used, 6% of 10 GB;"],
  ] as const) {
    setSize(bytes);
    expect((await lines("--remote"))[1]).toBe(`Keys database: ${shown} no pending migrations`);
  }
});

it("shows databases that were never migrated, which is a failure, and fails without databases", async () => {
  const status = () => runPetstore("status --preview staging");
  const isNew = await status();
  expect(isNew.stdout).toMatch(
    /^Keys database .*; pending: 0001_keys\.sql, .*, which \.\/petstore migrate --preview staging applies$/m,
  );
  expect(isNew.stdout).toMatch(
    /^Restore +unknown: migrations are pending: run .*\nKeys +unknown: migrations are pending: run /m,
  );
  expect([isNew.exitCode, isNew.stderr]).toEqual([
    1,
    expect.stringMatching(/\nerror: migrations are pending: run \.\/petstore migrate --preview staging\n$/),
  ]);
  // Only production has a log of its own.
  expect(isNew.stdout).not.toContain("Last hour");
  api.databases.delete("petstore-previews-pets");
  const none = "there is no database petstore-previews-pets in this account yet";
  expect(await status()).toMatchObject({
    exitCode: 1,
    stdout: expect.stringMatching(new RegExp(`^Keys database +\\d.*\nPets database +unknown: ${none}`, "m")),
    stderr: expect.stringContaining(`error: ${none}`),
  });
  api.databases.delete("petstore-previews-keys");
  expect(await status()).toMatchObject({ exitCode: 1, stdout: "" });
});

describe("of local databases", () => {
  let full: Awaited<ReturnType<typeof emptyState>>;
  beforeAll(async () => {
    full = await emptyState();
    const databases = await createDatabases({ kind: "local", state: full.state }, ...CONTENTS);
    for (const contents of CONTENTS) await migrate(databases[contents], contents);
    const numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)";
    await databases.pets
      .prepare(`INSERT INTO pets (name, category_id) ${numbers} SELECT 'Rex', i FROM n`)
      .run();
    await databases.close();
  });
  afterAll(() => full.remove());

  /** A copy of its own for a test. */
  const fill = async () => {
    const { state, remove } = await emptyState();
    onTestFinished(remove);
    await cp(full.state, state, { recursive: true });
    return { state, pets: databaseFile(state, "pets") };
  };

  const statusOf = async (state: string, ...options: string[]) => {
    const outcome = await runPetstore(["status", "--persist-to", state, "--json", ...options]);
    return { ...outcome, status: outcome.stdout === "" ? undefined : JSON.parse(outcome.stdout) };
  };

  it("shows what they have, and fails if there are none", async () => {
    const { state } = await fill();
    const missing = await statusOf(`${state}-none`);
    const create = `create it with ./petstore migrate --persist-to ${state}-none`;
    const problem = `error: there is no database of keys in ${state}-none: ${create}\n`;
    expect([missing.exitCode, missing.stderr]).toEqual([1, problem]);
    const limits = { maxBytes: 10_000_000_000, maxBytesOnFree: 500_000_000 };
    expect((await statusOf(state, "--url", petstore.origin)).status).toMatchObject({
      build: { build: "development" },
      petsDatabase: { bytes: expect.any(Number), ...limits, tables: null, pendingMigrations: [] },
      keys: { total: 0 },
      growth: { pets: { problem: "only production has the cron trigger that records the size of a day" } },
      lastHour: null,
    });
  });

  it("what a deletion has freed does not count, and --tables counts the rows of more than one statement", async () => {
    const { state } = await fill();
    const before = await statusOf(state, "--tables");
    expect(before.status.petsDatabase.tables[0]).toMatchObject({ name: "pets", rows: 60_000 });
    const { pets, close } = await openDatabases({ kind: "local", state }, "pets");
    await pets.prepare("DELETE FROM pets WHERE id % 100 > 0").run();
    await close();
    const after = await statusOf(state, "--tables");
    expect(after.status.petsDatabase.tables[0].rows).toBe(600);
    expect(after.status.petsDatabase.bytes).toBeLessThan(before.status.petsDatabase.bytes / 2);
  });

  it.each<[string, (file: string) => Promise<void>]>([
    ["a page of which is overwritten", (file) => overwrite(file, 100, 4_096)],
    ["the first tables of which are overwritten", (file) => overwrite(file, 1, 16_384)],
    ["whose first bytes are overwritten", (file) => overwrite(file, 0, 100)],
    ["whose end is missing", (file) => truncate(file, 300_000)],
  ])("a database %s is damaged, which does not hide the other", async (_, damage) => {
    const { state, pets } = await fill();
    await damage(pets);
    const damaged = `the database of pets is damaged, in ${pets} \\(`;
    const problem = expect.stringMatching(new RegExp(`^${damaged}.*with \\./petstore restore --from FILE`));
    const { exitCode, status } = await statusOf(state);
    expect([exitCode, status.petsDatabase, status.keys.total]).toEqual([1, { problem }, 0]);
    const backup = await runPetstore(["backup", `${state}.backup`, "--persist-to", state]);
    const stderr = expect.stringMatching(new RegExp(`${state}\\.backup was not written: ${damaged}`));
    expect(backup).toMatchObject({ exitCode: 1, stderr });
  });

  it("an empty file is a database without migrations", async () => {
    const { state } = await fill();
    for (const contents of CONTENTS) await truncate(databaseFile(state, contents), 0);
    const problem = `migrations are pending: run ./petstore migrate --persist-to ${state}\n`;
    expect(await statusOf(state)).toMatchObject({ exitCode: 1, stderr: `error: ${problem}` });
    const backup = await runPetstore(["backup", `${state}.backup`, "--persist-to", state]);
    expect([backup.exitCode, backup.stderr]).toEqual([1, expect.stringContaining(`not written: ${problem}`)]);
  });
});

async function overwrite(path: string, page: number, bytes: number): Promise<void> {
  const file = await open(path, "r+");
  await file.write(Buffer.alloc(bytes, 0xa5), 0, bytes, page * 4_096);
  await file.close();
}
