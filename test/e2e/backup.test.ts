// ./petstore backup and restore --from: against a fake of Cloudflare's API, of which every call can be lost, and on local databases.
// A backup of production is restored into the databases of previews.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { migrate, migratedDatabase, openDatabases } from "../../scripts/cloudflare/database.ts";
import { beginRestore, findUnfinished, finishRestore } from "../../scripts/cloudflare/time-travel.ts";
import { Io } from "../../scripts/lib/io.ts";
import { createKey, rotateKey } from "../../src/operators/admin.ts";
import { findKeyById } from "../../src/operators/records.ts";
import { insertPetOnce } from "../../src/pets/idempotency.ts";
import { insertPet } from "../../src/pets/store.ts";
import { Random } from "../simulation/random.ts";
import {
  type Account,
  apiError,
  DATABASES,
  memoryAccount,
  tooManyCalls,
} from "../support/e2e/cloudflare-api.ts";
import { failure, runPetstore } from "../support/e2e/in-process.ts";
import { emptyState, startPetstore } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";
import { useAccount } from "../support/e2e/use-account.ts";
import { startWorkersAccount } from "../support/e2e/workers-account.ts";
import { SEED } from "../support/seed.ts";

const OPERATOR = { by: "jo", nowMs: Date.UTC(2026, 10, 19, 12) };
const random = new Random(SEED);
/** Of the rows that a test on D1 needs, what others need. */
const SHARE = 0.6;
/** How often a restore is killed twice. */
const { RESTORE_DRILLS = "1" } = process.env;

const [d1, memory] = [await startWorkersAccount(), memoryAccount()];
/** What has the databases: D1 for one test, else SQLite in memory, which answers sooner. */
let account: Account = memory;
const { api, databaseOf } = await useAccount(DATABASES, {
  ...d1,
  query: (...request) => account.query(...request),
});
type Databases = Record<"keys" | "pets", D1Database>;
const of = (prefix: string): Databases => ({
  keys: databaseOf(`${prefix}-keys`),
  pets: databaseOf(`${prefix}-pets`),
});
const [source, target] = [of("petstore"), of("petstore-previews")];

let folder: string;
/** A backup of the source, and all its rows. */
let backup: string;
let rows: Awaited<ReturnType<typeof allRows>>;

const EXACT = [
  [
    "-9223372036854775808",
    "9223372036854775807",
    `'line
feed, "quotes", ''apostrophe'', \\, \u2028, 😀'`,
  ],
  ["-1", "-9223372036854775808", "'x'"],
  ["9007199254740993", "9007199254740993", "char(1, 127, 0x10ffff)"],
];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  await fill(source, SHARE);
  rows = await allRows(source);
  backup = await newBackup("--remote");
});

beforeEach(async () => {
  api.intercept();
  for (const database of Object.values(target)) await empty(database);
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** Values of every kind, and pages of pets that are limited by bytes: more than one, and with a `share` of 1 more than a text of D1. */
async function fill({ keys, pets }: Databases, share: number): Promise<void> {
  await migrate(keys, "keys");
  await migrate(pets, "pets");
  const emoji = "😀".repeat(255);
  await run(
    pets,
    `INSERT INTO pets (name, category_id) ${numbers(2_000 * share)} SELECT '${emoji}', i FROM n`,
  );
  for (const row of EXACT)
    await run(pets, `INSERT INTO pets (id, category_id, name, status) VALUES (${row}, 'sold')`);
  const record = `SELECT 'key_a', unhex(printf('%064x', i)), randomblob(32), i, json_array('${emoji}'), i FROM n`;
  await run(pets, `INSERT INTO creations ${numbers(950 * share)} ${record}`);
  // The highest id is that of a pet that is gone.
  await run(pets, "INSERT INTO pets (id, category_id, name) VALUES (9007199254740995, 1, 'gone')");
  await run(pets, "DELETE FROM pets WHERE name = 'gone'");

  const newKeys = Array.from({ length: 30 }, (_, i) => i);
  for (const i of newKeys) {
    const { key } = await createKey(
      keys,
      { name: `shop ${i} '"\u2028`, plan: "pro", expiresAtMs: null },
      OPERATOR,
    );
    for (let times = 0; times < i % 4; times += 1) await rotateKey(keys, key.id, 60_000, OPERATOR);
  }
  await run(keys, "UPDATE key_changes SET from_value = '', to_value = char(0) WHERE id = 3");
  const usage =
    "SELECT '2026-11-20', printf('%0500d', i), 'a', i, 9007199254740993, '{}', '{}', NULL, i, 80 FROM n";
  await run(keys, `INSERT INTO key_usage ${numbers(1_900 * share)} ${usage}`);
  await run(keys, "INSERT INTO pet_restores VALUES (1, 'jo', '0', NULL, 9223372036854775807, 2)");
}

const numbers = (count: number) =>
  `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;

async function run<Row = Record<string, unknown>>(database: D1Database, sql: string): Promise<Row[]> {
  return (await database.prepare(sql).all<Row>()).results;
}

const TABLES = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*' AND name NOT GLOB '_cf_*'`;

async function empty(database: D1Database): Promise<void> {
  const tables = await run<{ name: string }>(database, `${TABLES} ORDER BY name = 'keys'`);
  for (const { name } of tables) await run(database, `DROP TABLE ${name}`);
}

/** What no backup has. */
const LEFT_OUT = "'d1_migrations', 'backups', 'database_sizes'";

/** All rows by table that a backup can have, as SQLite's literals; of many rows, a digest. */
async function allRows(databases: Databases): Promise<Record<string, string[]>> {
  const all: Record<string, string[]> = {};
  for (const database of [databases.keys, databases.pets])
    for (const { name } of await run<{ name: string }>(database, `${TABLES} AND name NOT IN (${LEFT_OUT})`)) {
      const columns = await run<{ name: string }>(database, `SELECT name FROM pragma_table_info('${name}')`);
      const row = columns.map((column) => `quote(${column.name})`).join(" || ',' || ");
      const found = await run<{ row: string }>(database, `SELECT ${row} AS row FROM ${name} ORDER BY row`);
      const literals = found.map((each) => each.row);
      const digest = createHash("sha256").update(literals.join("\n")).digest("hex");
      all[name] = literals.length < 10 ? literals : [`${literals.length} rows with ${digest}`];
    }
  return all;
}

/** The target has exactly the rows of the source, and the row of the restore. */
async function expectRestored(when?: string, all = rows): Promise<void> {
  const { pet_restores: restores = [], ...others } = await allRows(target);
  const { pet_restores: expected = [], ...otherRows } = all;
  expect(others, when).toEqual(otherRows);
  expect(restores.slice(0, -1), when).toEqual(expected);
  expect(restores.at(-1), when).toMatch(/^\d+,'\w+','file:[0-9a-f]{64}:keys\+pets',NULL,\d+,\d+$/);
}

let files = 0;
function newFile(): string {
  files += 1;
  return join(folder, `${files}.backup`);
}

async function newBackup(selected: string): Promise<string> {
  const file = newFile();
  const { exitCode, stderr } = await runPetstore(`backup ${file} ${selected}`);
  expect([exitCode, stderr]).toEqual([0, expect.stringContaining("Writing")]);
  return file;
}

const restore = (file: string, selected = "--preview staging") =>
  runPetstore(`restore --from ${file} ${selected} --yes`);

/** Sets the title of a terminal, and its colour; in one form of 8 bits too. */
const ESCAPES = "\u001b]0;title\u0007\u001b[31mred\u009b0m";

const linesOf = async (file: string) =>
  gunzipSync(await readFile(file))
    .toString()
    .split("\n");

/** A file with these lines, and with the numbers of rows (unless others are claimed) and the checksum that fit. */
async function forge(lines: string[], claimed?: object): Promise<string> {
  const text = `${lines.join("\n")}\n`;
  const rows: Record<string, number> = {};
  let table = "";
  for (const line of lines.slice(1))
    if (line.startsWith("[")) rows[table] = (rows[table] ?? 0) + 1;
    else table = JSON.parse(line).table;
  const sha256 = createHash("sha256").update(text).digest("hex");
  const file = newFile();
  await writeFile(file, gzipSync(`${text}${JSON.stringify({ rows: claimed ?? rows, sha256 })}\n`));
  return file;
}

it("restores all rows of D1 exactly, and assigns ids above all that were ever assigned", async () => {
  account = d1;
  onTestFinished(() => {
    account = memory;
  });
  await fill(source, 1);
  const ofD1 = await allRows(source);
  const file = await newBackup("--remote");
  const lines = await linesOf(file);
  // JavaScript has not read and written the integers.
  expect(lines.some((line) => line.startsWith("[9007199254740993,"))).toBe(true);
  expect(lines.find((line) => line.startsWith("[-9223372036854775808,"))).toMatch(
    /,9223372036854775807,"sold"\]$/,
  );
  expect((await stat(file)).mode & 0o777).toBe(0o600);

  const { exitCode, stdout, stderr } = await restore(file);
  expect([exitCode, stdout]).toEqual([
    0,
    expect.stringMatching(/^Applied migrations: .*\nRestored the databases /),
  ]);
  expect(stderr).toContain("A key that was revoked, suspended, rotated or changed later is as it was then");
  expect(stderr).toContain(
    "\nthe record of changes, which ./petstore keys log --preview staging prints, ends before",
  );
  await expectRestored("in D1", ofD1);
  const { id } = await insertPet(target.pets, { name: "next", categoryId: 1n });
  expect(BigInt(id)).toBeGreaterThan(9_007_199_254_740_995n + 999_999n);
});

it("assigns ids above those that the service may have assigned since the backup, a thousand a second", async () => {
  const { header } = await split(backup);
  const weekMs = 7 * 86_400_000;
  const createdAt = new Date(Date.now() - weekMs).toISOString();
  const old = await forge([JSON.stringify({ ...header, highestId: "5", createdAt })]);
  expect((await restore(old)).exitCode).toBe(0);
  const [row] = await run<{ ids: number }>(
    target.keys,
    "SELECT ids_above AS ids FROM pet_restores ORDER BY began_at_ms DESC",
  );
  expect(row?.ids).toBeGreaterThanOrEqual(weekMs);
});

async function split(file: string) {
  const [header = "", ...rest] = await linesOf(file);
  return { header: JSON.parse(header), rest: rest.slice(0, -2) };
}

it("loses the first request and the next response of every statement, and no row", async () => {
  const attempts = new Map<string, number>();
  api.intercept(async (request, body, send) => {
    // The time of an attempt does not make it another statement. What a database lacks is migrated at once, with a pause that each loss
    // doubles.
    const isMigration = body.includes("INSERT INTO d1_migrations");
    const statement = isMigration ? request : body.replaceAll(/\b\d{13}\b/g, "");
    const attempt = (attempts.get(statement) ?? 0) + 1;
    attempts.set(statement, attempt);
    if (!request.endsWith("/query") || attempt > 2) return send();
    if (attempt === 2) await send();
    throw apiError(502, 502, "Bad gateway");
  });
  const file = await newBackup("--remote");
  expect((await split(file)).rest).toEqual((await split(backup)).rest);
  expect(await restore(file)).toMatchObject({ exitCode: 0 });
  await expectRestored();
});

it("has no half of what is changed while it is written", async () => {
  const { key } = await createKey(
    source.keys,
    { name: "rotated", plan: "free", expiresAtMs: null },
    OPERATOR,
  );
  onTestFinished(async () => {
    for (const table of ["replaced_secrets", "key_changes"])
      await run(source.keys, `DELETE FROM ${table} WHERE key_id = '${key.id}'`);
    await run(source.keys, `DELETE FROM keys WHERE id = '${key.id}'`);
    await run(source.pets, "DELETE FROM pets WHERE name = 'new'");
    await run(source.pets, "DELETE FROM creations WHERE key_id = 'key_b'");
    await run(source.keys, "DELETE FROM pet_restores WHERE finished_at_ms IS NULL");
  });
  let calls = 0;
  let isReading = false;
  api.intercept(async (_, body, send) => {
    isReading ||= body.includes("group_concat");
    calls += 1;
    if (isReading) {
      const scope = { keyId: "key_b", idempotencyKey: `${calls}` };
      await insertPetOnce(source.pets, { name: "new", categoryId: 1n }, scope, OPERATOR.nowMs);
      await rotateKey(source.keys, key.id, 60_000, OPERATOR);
      await run(source.keys, "INSERT OR IGNORE INTO pet_restores VALUES (2, 'jo', '0', NULL, NULL, NULL)");
    }
    return send();
  });
  const file = await newBackup("--remote");
  api.intercept();
  expect((await restore(file)).exitCode).toBe(0);
  const { pets = [], creations = [] } = await allRows(target);
  expect([pets, creations]).toEqual([rows.pets, rows.creations]);
  expect(await findUnfinished(target.keys)).toBeNull();
  const restored = await findKeyById(target.keys, key.id, OPERATOR.nowMs);
  expect(restored?.states).toContain("in-grace");
  const both =
    "SELECT 1 FROM keys JOIN replaced_secrets ON key_id = id AND keys.hash = replaced_secrets.hash";
  expect(await run(target.keys, both)).toEqual([]);
});

/** The file is refused with this problem, in one line. */
async function expectRefused(file: string, problem: string, when: string): Promise<void> {
  const { exitCode, stdout, stderr } = await restore(file);
  expect([exitCode, stdout], when).toEqual([1, ""]);
  expect(stderr, when).toMatch(/^Checking .*\nerror: .*\n$/);
  expect(stderr, when).toContain(file);
  expect(stderr, when).toContain(problem);
}

const DAMAGED = "is damaged or no backup";
const changeText = (change: (text: string) => string) => (bytes: Buffer) =>
  gzipSync(change(gunzipSync(bytes).toString()));
const withMore = (more: Uint8Array) => (bytes: Buffer) => Buffer.concat([bytes, more]);

it("a file is refused before anything is written if it is not a whole backup", async () => {
  for (const [what, change, problem] of [
    ["it is empty", () => Buffer.alloc(0), DAMAGED],
    ["it is not compressed", (bytes) => gunzipSync(bytes), DAMAGED],
    ["it is another file", () => gzipSync("hello\n"), "is not a backup of this service"],
    ["bytes are missing", (bytes) => bytes.subarray(0, -20), DAMAGED],
    ["lines are missing", changeText((text) => text.slice(0, 500_000)), DAMAGED],
    ["a line has no end", changeText((text) => text.replace(/$/, "x".repeat(5_000_000))), "too long"],
    ["a value has changed", changeText((text) => text.replace('"sold"', '"gold"')), "SHA-256"],
    ["zeros follow", withMore(Buffer.alloc(10)), DAMAGED],
    ["other bytes follow", withMore(Buffer.from("x".repeat(100_000))), DAMAGED],
    ["another file follows", withMore(gzipSync("[1]\n")), DAMAGED],
  ] satisfies [string, (bytes: Buffer) => Uint8Array, string][]) {
    const file = newFile();
    await writeFile(file, change(await readFile(backup)));
    await expectRefused(file, problem, what);
  }
  const { header, rest } = await split(backup);
  const lines = [JSON.stringify(header), ...rest];
  await expectRefused(await forge(lines, { "pets.pets": 1e9 }), "not as many rows as it says", "claims");
  const [first = "", ...others] = lines;
  const prototype = await forge([first, '{"table":"__proto__"}', "[1]", ...others]);
  await expectRefused(prototype, "a line of no table", "a prototype");
  expect(await allRows(target)).toEqual({});
});

it("refuses a header that is wrong, or that this checkout can't follow, before anything is written", async () => {
  const { header, rest } = await split(backup);
  for (const [problem, ...patches] of [
    ["has version 2 of the format", { version: 2 }],
    ["a wrong version", { version: ESCAPES }],
    ["a wrong migrations", { migrations: undefined }, { migrations: { keys: [ESCAPES], pets: [] } }],
    ["needs migrations/pets/9_x.sql, which", { migrations: { keys: [], pets: ["9_x.sql"] } }],
    ["a wrong createdAt", { createdAt: "yesterday" }, { createdAt: "2026-02-28" }],
    ["a wrong createdAt", { createdAt: "2026-02-31T00:00:00Z" }],
    // It would hide the ids since.
    ["a wrong createdAt", { createdAt: new Date(Date.now() + 172_800_000).toISOString() }],
    ["a wrong highestId", { highestId: "x" }, { highestId: "9223372036854775808" }],
    ["a wrong source", { source: ESCAPES }],
    ["a wrong layout", { layout: [] }, { layout: { "pets.pets": ["id", 1] } }],
    ["a line of no table", { layout: {} }],
    ["no table pets.collars", { layout: { "pets.collars": ["id"] } }],
    ["no column colour of pets.pets", { layout: { "pets.pets": ["id", "colour"] } }],
    [
      "no column salt of keys.replaced_secrets",
      { layout: { "keys.keys": ["id"], "keys.replaced_secrets": ["salt"] } },
    ],
  ] satisfies [string, ...object[]][])
    for (const patch of patches) {
      const file = await forge([JSON.stringify({ ...header, ...patch }), ...rest]);
      await expectRefused(file, problem, JSON.stringify(patch));
    }
  expect(await allRows(target)).toEqual({});
});

it("refuses a row that does not fit into its table, or that no backup has, before anything is written", async () => {
  const key = {
    id: "key_a",
    name: "a",
    plan: "free",
    limits: null,
    hash: "00".repeat(32),
    last_four: "abcd",
  };
  const KEY = { ...key, created_at_ms: 1 };
  const layout = {
    "pets.pets": ["id", "name", "category_id", "status"],
    "pets.creations": ["key_id", "idempotency_hash", "request_hash", "pet_id", "pet_json", "created_at_ms"],
    "keys.keys": Object.keys(KEY),
    "keys.replaced_secrets": ["hash", "good_until_ms"],
    "keys.pet_restores": ["began_at_ms", "begun_by", "bookmark", "finished_at_ms"],
  };
  const { header } = await split(backup);
  for (const [label, row, problem] of [
    ["pets.pets", [9, "", 1, null], "CHECK constraint failed"],
    ["pets.pets", [9, "x", "one", null], "cannot store TEXT"],
    ["pets.pets", ["9007199254740996", "x", 1, null], "not id <= "],
    ["keys.keys", [...Object.values({ ...KEY, plan: null }), []], "NOT NULL"],
    ["keys.keys", [...Object.values({ ...KEY, hash: "x" }), []], "NOT NULL"],
    ["keys.keys", [...Object.values(KEY), [["00", 1]]], "CHECK"],
    ["keys.pet_restores", [1, "jo", "0", null], "not finished"],
    ["keys.replaced_secrets", ["00", 1], "no rows of its own"],
    ["pets.creations", [], "NOT NULL"],
  ] satisfies [string, unknown[], string][]) {
    const pets = Array.from({ length: 6 }, (_, i) => `[${i + 1},"a pet",1,null]`);
    const lines = ['{"table":"pets.pets"}', ...pets, JSON.stringify({ table: label }), JSON.stringify(row)];
    const file = await forge([JSON.stringify({ ...header, layout }), ...lines]);
    await expectRefused(file, problem, `${label} ${row}`);
  }
  expect(await allRows(target)).toEqual({});
});

it("columns that are newer than the backup get their defaults", async () => {
  const { header } = await split(backup);
  header.layout = { "pets.pets": ["category_id", "id", "name"] };
  header.highestId = "9223372036854775807";
  const file = await forge([
    JSON.stringify(header),
    `{"table":"pets.pets"}`,
    `[-1,9223372036854775807,"Kit"]`,
  ]);
  expect((await restore(file)).exitCode).toBe(0);
  expect((await allRows(target)).pets).toEqual(["9223372036854775807,'Kit',-1,NULL"]);
});

it("--only leaves the other database as it is", async () => {
  await migrate(target.keys, "keys");
  await createKey(target.keys, { name: "kept", plan: "free", expiresAtMs: null }, OPERATOR);
  const { keys } = await allRows(target);
  expect((await restore(backup, "--only pets --preview staging")).exitCode).toBe(0);
  const { pets, creations } = rows;
  expect(await allRows(target)).toMatchObject({ pets, creations, keys });
  for (const name of ["key_changes", "keys"]) await run(target.keys, `DELETE FROM ${name}`);
  const { id } = await insertPet(target.pets, { name: "next", categoryId: 1n });
  const { exitCode, stderr } = await restore(backup, "--only keys --preview staging");
  expect([exitCode, stderr]).toEqual([0, expect.not.stringContaining("Pets")]);
  expect((await allRows(target)).keys).toEqual(rows.keys);
  expect((await insertPet(target.pets, { name: "later", categoryId: 1n })).id).toBe(`${BigInt(id) + 1n}`);
});

it("keeps what a running service has recorded since, and has nothing about the databases themselves", async () => {
  const ofDatabases = [
    "INSERT OR REPLACE INTO backups VALUES (1, 5, 'jo')",
    "INSERT OR REPLACE INTO database_sizes VALUES ('2026-11-20', 'pets', 5)",
  ];
  for (const sql of ofDatabases) await run(source.keys, sql);
  const file = await newBackup("--remote");
  const { layout } = (await split(file)).header;
  expect(Object.keys(layout).filter((label) => /backups|sizes/.test(label))).toEqual([]);
  await migrate(target.keys, "keys");
  for (const sql of ofDatabases) await run(target.keys, sql.replace("5", "7"));
  const recorded = "'2026-11-20', printf('%0500d', 7), 'a', 8, 1, '{}', '{}', 5, 6, 0";
  await run(target.keys, `INSERT INTO key_usage VALUES (${recorded})`);
  expect(await restore(file)).toMatchObject({ exitCode: 0 });
  const usage =
    "SELECT count(*) AS count, max(revision) FILTER (WHERE key_id = printf('%0500d', 7)) AS revision FROM key_usage";
  expect(await run(target.keys, usage)).toEqual([{ count: 1_900 * SHARE, revision: 8 }]);
  expect(await run(target.keys, "SELECT began_at_ms FROM backups")).toEqual([{ began_at_ms: 7 }]);
  expect(await run(target.keys, "SELECT bytes FROM database_sizes")).toEqual([{ bytes: 7 }]);
});

it("a backup is a new file, and a restore has one: anything else is wrong usage", async () => {
  const link = newFile();
  await symlink(`${link}-none`, link);
  // With its ending while it is written, it is too long.
  const long = join(folder, "x".repeat(250));
  for (const [line, problem] of [
    [`backup ${backup} --remote`, `${backup} exists: give another name`],
    [`restore --from ${folder} --dry-run`, `${folder} is a folder`],
    [`backup ${link} --remote`, `${link} exists: give another name`],
    [`backup ${long} --remote`, `a name in the path ${long} is too long`],
    [`restore --from ${folder}/none --dry-run`, `there is no ${folder}/none`],
    [`restore --from ${backup}/x --dry-run`, `a part of the path ${backup}/x is a file, not a folder`],
  ] as const) {
    const stderr = expect.stringMatching(new RegExp(`^(Checking .*\n)?error: ${problem}\n$`));
    expect(await runPetstore(line)).toMatchObject({ exitCode: 2, stdout: "", stderr });
  }
});

it("a backup waits while Cloudflare's API takes no calls, once for two calls at the same time", async () => {
  const { promise: another, resolve } = Promise.withResolvers<void>();
  let refused = 0;
  api.intercept(async (_, body, send) => {
    const isFirst = refused === 0 && body.includes("sqlite_sequence");
    if (!isFirst && refused !== 1) return send();
    refused += 1;
    if (refused === 2) resolve();
    await another;
    throw tooManyCalls({ "Retry-After": "0" });
  });
  const told = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  onTestFinished(() => told.mockRestore());
  expect((await split(await newBackup("--remote"))).rest).toEqual((await split(backup)).rest);
  expect([refused, told.mock.calls.length]).toEqual([2, 1]);
});

it("a command that has failed ends, though another call still waits", async () => {
  const { promise: isRefused, resolve } = Promise.withResolvers<void>();
  let hasBegun = false;
  const refused: string[] = [];
  api.intercept(async (request, body, send) => {
    if (body.includes("sqlite_sequence")) {
      hasBegun = true;
      await isRefused;
      throw apiError(400, 7500, "the statement is wrong: SQLITE_ERROR");
    }
    if (!hasBegun || !body.includes("d1_migrations")) return send();
    resolve();
    refused.push(request + body);
    // The call would be repeated after five minutes.
    throw tooManyCalls();
  });
  const { exit, stderr } = await startPetstore(["backup", newFile(), "--remote"]).ended;
  expect([exit, stderr]).toEqual([1, expect.stringMatching(/\nerror: .*the statement is wrong/)]);
  // It has ended before.
  expect(refused).not.toEqual([]);
  expect(new Set(refused).size).toBe(refused.length);
});

it("--dry-run checks the file, and the databases that an option chooses, of which none may have lost a table", async () => {
  const dryRun = async (selected = "") => {
    const env = { PETSTORE_TARGET: "remote" };
    const line = `restore --from ${backup} --dry-run${selected}`;
    const { exitCode, stdout, stderr } = await runPetstore(line, { env });
    const pets = (2_000 * SHARE + EXACT.length).toLocaleString("en");
    expect(stdout).toMatch(new RegExp(`^Complete: .*pets\\.pets ${pets}.*\n`));
    return { exitCode, stdout, stderr };
  };
  const asked = api.requests.length;
  expect(await dryRun()).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining("No database was read"),
  });
  expect(api.requests.length).toBe(asked);
  expect(await dryRun(" --preview staging")).toMatchObject({
    exitCode: 0,
    stdout: expect.stringMatching(/\nRestores the databases .*\nThe next id .*\nNothing was changed\.\n$/),
  });
  expect(await allRows(target)).toEqual({});
  const used = expect.stringContaining("have rows in pets.pets");
  expect(await dryRun(" --remote")).toMatchObject({ exitCode: 2, stderr: used });
  await migrate(target.keys, "keys");
  await run(target.keys, "DROP TABLE key_usage");
  const lost = expect.stringContaining("the database of keys has lost its table key_usage");
  expect(await dryRun(" --preview staging")).toMatchObject({ exitCode: 1, stderr: lost });
  const again = await runPetstore(`backup ${newFile()} --preview staging`);
  expect(again).toMatchObject({ exitCode: 1, stderr: lost });
});

it("a restore that is not confirmed leaves no trace, also of local databases", async () => {
  const { state, remove } = await emptyState();
  onTestFinished(remove);
  const line = `restore --from ${backup} --persist-to ${state}`;
  expect((await runPetstore(`${line} --dry-run`)).exitCode).toBe(0);
  expect((await runPetstore(line)).exitCode).toBe(2);
  expect((await runPetstore(line, { stdin: "n\n" })).exitCode).toBe(1);
  expect(existsSync(state)).toBe(false);
});

it("restores only into empty databases, after a question", async () => {
  expect(await restore(backup, "--remote")).toMatchObject(
    failure(2, "have rows in pets.pets: a backup goes only into empty databases"),
  );
  expect(await allRows(source)).toEqual(rows);
  const asked = await runPetstore(`restore --from ${backup} --preview staging`);
  expect(asked).toMatchObject(failure(2, "add --yes to do it"));
  expect(await allRows(target)).toEqual({});
  vi.spyOn(Io.prototype, "confirm").mockImplementationOnce(async () => {
    await migrate(target.keys, "keys");
    await createKey(target.keys, { name: "meanwhile", plan: "free", expiresAtMs: null }, OPERATOR);
  });
  expect(await restore(backup)).toMatchObject(failure(2, "have rows in keys.key_changes"));
});

it("until a restore from a file is finished, only the same file is restored, and nothing is backed up", async () => {
  api.intercept(async (_, body, send) => {
    if (body.includes("INSERT INTO keys ")) throw apiError(400, 7500, "no keys");
    return send();
  });
  vi.spyOn(Io.prototype, "confirm").mockImplementationOnce(async () => {
    expect(await restore(backup)).toMatchObject(
      failure(1, "no keys (7500); the restore is unfinished: run the same command again"),
    );
  });
  expect(await restore(backup)).toMatchObject(failure(2, "the same restore has begun meanwhile, begun by "));
  api.intercept();
  // Nobody can call the service before all else is there.
  const { keys, replaced_secrets: secrets, pet_restores: _, ...others } = await allRows(target);
  expect([keys, secrets]).toEqual([[], []]);
  expect(rows).toMatchObject(others);
  const added = await insertPet(target.pets, { name: "meanwhile", categoryId: 1n });

  const { header, rest } = await split(backup);
  const other = await forge([JSON.stringify({ ...header, source: "another" }), ...rest]);
  const finish = "finish it with \\./petstore restore --from FILE --preview staging";
  const unfinished = new RegExp(
    `a restore is unfinished, to file:\\w+:keys\\+pets, begun by \\w+ at .*Z: unless it still runs, ${finish}`,
    "i",
  );
  for (const line of [
    `restore --from ${backup} --only keys --yes`,
    `restore --from ${other} --yes`,
    "restore --bookmark 0 --yes",
    "restore --resume --yes",
    `backup ${newFile()}`,
    "keys create --name x --plan free",
  ])
    expect(await runPetstore(`${line} --preview staging`)).toMatchObject({
      stdout: "",
      stderr: expect.stringMatching(unfinished),
    });
  expect(await runPetstore("keys list --preview staging")).toMatchObject({
    stdout: "",
    stderr: expect.stringMatching(new RegExp(`No keys yet. A restore is unfinished: ${finish}`)),
  });

  vi.spyOn(Io.prototype, "confirm").mockImplementationOnce(async () => {
    expect(await restore(backup)).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining("Continues the restore, begun by"),
    });
  });
  expect(await restore(backup)).toMatchObject(failure(2, "have rows in pets.pets"));
  await run(target.pets, `DELETE FROM pets WHERE id = ${added.id} AND name = 'meanwhile'`);
  await expectRestored();
});

it("a restore that another machine finishes in the last moment is not begun again", async () => {
  const keys = await migratedDatabase("keys");
  const begun = { beganAtMs: 1, begunBy: "somebody", bookmark: "file:1", undoBookmark: null, idsAbove: null };
  await beginRestore(keys, begun);
  await finishRestore(keys, begun);
  await expect(beginRestore(keys, begun)).rejects.toThrow(/^another machine has finished this restore$/);
});

/** Runs a command in a process of its own, which is killed at its `number`th call. */
async function interrupt(line: string, number: number, isArriving: boolean) {
  const { child } = startPetstore(line.split(" "));
  const closed = once(child, "close");
  const calls: Promise<void>[] = [];
  const handle = async (call: number, send: () => Promise<void>) => {
    if (call === number) {
      child.kill("SIGKILL");
      await closed;
    }
    if (call !== number || isArriving) await send();
  };
  api.intercept((_request, _body, send) => {
    const handled = handle(calls.length + 1, send);
    calls.push(handled);
    return handled;
  });
  await closed;
  // What has arrived takes effect although nobody waits for it.
  await Promise.allSettled(calls);
  api.intercept();
}

async function callsOf(work: () => Promise<unknown>): Promise<number> {
  const before = api.requests.length;
  await work();
  return api.requests.length - before;
}

// backup-folder.test.ts interrupts one.
it("a backup that is killed leaves no file with its name", async () => {
  const calls = await callsOf(() => newBackup("--remote"));
  const file = newFile();
  // The last calls but two, which record the backup, read rows.
  const at = random.int(calls - 7, calls - 2);
  await interrupt(`backup ${file} --remote`, at, random.chance(0.5));
  const left = (await readdir(folder)).filter((name) => join(folder, name).startsWith(`${file}`));
  expect(left, `at call ${at}`).toEqual([expect.stringMatching(/\.\d+\.partial$/)]);
});

it("a restore that is killed anywhere, twice, is finished by the same command", async () => {
  const line = `restore --from ${backup} --preview staging --yes`;
  const calls = await callsOf(() => restore(backup));
  for (let drill = 1; drill <= Number(RESTORE_DRILLS); drill += 1) {
    for (const database of Object.values(target)) await empty(database);
    const kills = [random.int(1, calls), random.int(1, calls)];
    for (const at of kills) await interrupt(line, at, random.chance(0.5));
    // The last statement may have arrived.
    const finished = "SELECT 1 FROM pet_restores WHERE bookmark GLOB 'file:*' AND finished_at_ms > 0";
    const isFinished = (await run(target.keys, finished).catch(() => [])).length > 0;
    if (!isFinished) expect((await restore(backup)).exitCode).toBe(0);
    await expectRestored(`killed at calls ${kills}`);
  }
});

const petstore = sharedPetstore();

it("works on local databases, also while the service adds pets", async () => {
  const { key } = await petstore.newKey("enterprise", { minute: 100_000, day: 100_000 });
  let isDone = false;
  const adding = (async () => {
    const body = JSON.stringify({ name: "new", categoryId: 1 });
    const headers = { "Content-Type": "application/json" };
    let added = 0;
    for (; !isDone; added += 1) {
      const response = await petstore.call("/v1/pets", key, { method: "POST", headers, body });
      expect(response.status).toBe(201);
    }
    return added;
  })();
  const file = await newBackup(`--persist-to ${petstore.state}`).finally(() => {
    isDone = true;
  });
  expect(await adding).toBeGreaterThan(0);
  const { state, remove } = await emptyState();
  onTestFinished(remove);
  const restored = await restore(file, `--persist-to ${state}`);
  expect(restored.exitCode).toBe(0);
  const { header } = await split(file);
  const select = `SELECT quote(id) || quote(name) || quote(category_id) || quote(status) AS row FROM pets WHERE id <= ${header.highestId} ORDER BY row`;
  const petsIn = async (folder: string) => {
    const { pets, close } = await openDatabases({ kind: "local", state: folder }, "pets");
    return run(pets, select).finally(close);
  };
  expect(await petsIn(state)).toEqual(await petsIn(petstore.state));
});
