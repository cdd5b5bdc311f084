// ./petstore backup --dir: what cron needs of it, on local databases and on a fake of Cloudflare's API.

import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { findLastBackup } from "../../scripts/backup/backup.ts";
import { migrate, openDatabases } from "../../scripts/cloudflare/database.ts";
import { loginName } from "../../scripts/keys/options.ts";
import { apiError } from "../support/e2e/cloudflare-api.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { startPetstore } from "../support/e2e/petstore.ts";
import { useAccount } from "../support/e2e/use-account.ts";

const NOW = "2026-11-28T03:17:00Z";
const OWN = "petstore-local-2026-11-28T031700Z.backup";
const SILENT_SUCCESS = { exitCode: 0, stdout: "", using: "", stderr: "" };

const { api, databaseOf } = await useAccount();
let base: string;
let state: string;
/** Where a test's backups are. */
let folder: string;

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "petstore-test-"));
  state = join(base, "state");
  await runPetstore(["migrate", "--persist-to", state]);
  for (const prefix of ["petstore", "petstore-previews"])
    for (const contents of ["keys", "pets"] as const)
      await migrate(databaseOf(`${prefix}-${contents}`), contents);
});
beforeEach(async () => {
  api.intercept();
  folder = await mkdtemp(join(base, "backups-"));
});
afterAll(() => rm(base, { recursive: true }));

function beginAt(time: string): void {
  vi.useFakeTimers({ toFake: ["Date"], now: new Date(time) });
  onTestFinished(() => void vi.useRealTimers());
}

const backUp = (options = "", target = `--persist-to ${state}`) =>
  runPetstore(`backup --dir ${folder} ${options} ${target}`.replace(/ +/g, " "));

const fill = (...names: string[]) =>
  Promise.all(names.map((name) => writeFile(join(folder, name), "an earlier one")));

const left = async () => (await readdir(folder)).sort();

it("a backup has the time and the databases in its name, prints nothing, and is recorded with its time", async () => {
  beginAt(NOW);
  expect(await backUp()).toEqual(SILENT_SUCCESS);
  expect(await backUp("", "--preview staging")).toEqual(SILENT_SUCCESS);
  expect(await backUp("", "--remote")).toEqual(SILENT_SUCCESS);
  expect(await left()).toEqual([
    "petstore-2026-11-28T031700Z.backup",
    OWN,
    "petstore-previews-2026-11-28T031700Z.backup",
  ]);
  const recorded = { beganAtMs: Date.parse(NOW), madeBy: `${loginName()} at ${hostname()}` };
  const { keys, close } = await openDatabases({ kind: "local", state }, "keys");
  onTestFinished(close);
  expect(await findLastBackup(keys)).toEqual(recorded);
  // Of an earlier time: the clock was wrong before, and the latest backup counts.
  beginAt("2026-11-27T12:00:00.999Z");
  expect((await runPetstore(`backup ${join(folder, "x")} --persist-to ${state}`)).exitCode).toBe(0);
  expect(await findLastBackup(keys)).toEqual({
    ...recorded,
    beganAtMs: Date.parse("2026-11-27T12:00:00.999Z"),
  });
});

it("--keep deletes the oldest backups of these databases, and nothing else", async () => {
  beginAt(NOW);
  const others = [
    "petstore-2026-11-01T031700Z.backup",
    "petstore-previews-2026-11-01T031700Z.backup",
    "petstore-local-2026-11-01.backup",
    "petstore-local-2026-11-01T031700Z.backup.gz",
    "old-petstore-local-2026-11-01T031700Z.backup",
    // A command that has begun later, or a clock that was wrong.
    "petstore-local-2026-11-28T031701Z.backup",
    "petstore-local-2026-11-01T031702Z.backup.77.partial",
  ];
  const dayBefore = (day: number) => `petstore-local-2026-11-${day}T031700Z.backup`;
  const abandoned = [`${dayBefore(20)}.7.partial`, "petstore-local.7.partial"];
  await fill(...others, ...abandoned, dayBefore(27), dayBefore(26), dayBefore(25));
  for (const name of abandoned) await utimes(join(folder, name), 0, Date.parse(NOW) / 1000 - 86_401);
  await utimes(join(folder, others.at(-1) ?? ""), 0, Date.parse(NOW) / 1000 - 86_399);
  const [link, directory] = [dayBefore(11), dayBefore(12)];
  await symlink("nowhere", join(folder, link));
  await mkdir(join(folder, directory));

  expect(await backUp("--keep 3")).toEqual(SILENT_SUCCESS);
  const kept = [...others, link, directory, abandoned[1], OWN];
  expect(await left()).toEqual([...kept, dayBefore(26), dayBefore(27)].sort());
  // Both are earlier now, but nothing was asked to be deleted.
  beginAt("2026-11-28T03:18:00Z");
  expect(await backUp()).toEqual(SILENT_SUCCESS);
  expect(await left()).toHaveLength(kept.length + 3);
  expect(await backUp("--keep 1", "--preview staging")).toEqual(SILENT_SUCCESS);
  expect(await left()).not.toContain("petstore-previews-2026-11-01T031700Z.backup");
  expect(await left()).toHaveLength(kept.length + 3);
});

it("of two backups in a second, the later one fails, and replaces nothing", async () => {
  beginAt(NOW);
  await fill(OWN);
  const path = join(folder, OWN);
  const exists = `error: ${path} exists: another backup has begun in the same second\n`;
  expect(await backUp("--keep 1")).toEqual({ ...SILENT_SUCCESS, exitCode: 1, stderr: exists });
  expect(await readFile(path, "utf8")).toBe("an earlier one");
  // The other one ends while this one reads.
  const name = OWN.replace("-local", "");
  let calls = 0;
  api.intercept(async (_, body, send) => {
    calls += 1;
    if (body.includes("group_concat")) await fill(name);
    await send();
  });
  const meanwhile = `error: ${join(folder, name)} was not written: it exists meanwhile\n`;
  expect(await backUp("--keep 1", "--remote")).toEqual({ ...SILENT_SUCCESS, exitCode: 1, stderr: meanwhile });
  expect(await readFile(join(folder, name), "utf8")).toBe("an earlier one");
  expect(calls).toBeGreaterThan(0);
  expect(await left()).toEqual([name, OWN]);
});

it("a backup that is interrupted, or does not fit on the disk, deletes none, and is not recorded", async () => {
  const keys = databaseOf("petstore-keys");
  await keys.prepare("DELETE FROM backups").run();
  const pets = databaseOf("petstore-pets");
  // Of more than a kilobyte, also compressed.
  await pets
    .prepare(
      "INSERT INTO creations VALUES ('k', randomblob(32), randomblob(32), 0, json_quote(hex(randomblob(5000))), 0)",
    )
    .run();
  const earlier = "petstore-2026-11-01T031700Z.backup";
  await fill(earlier);
  const words = ["backup", "--dir", folder, "--keep", "1", "--remote"];
  const ended = expect.stringMatching(/^error: \/.*Z\.backup was not written: (interrupted|EFBIG: .*)\n$/);
  const { child, ended: interrupted } = startPetstore(words);
  api.intercept(async (_, body, send) => {
    if (body.includes("group_concat")) {
      child.kill("SIGINT");
      await once(child, "close");
    }
    await send();
  });
  expect(await interrupted).toMatchObject({ exit: 1, stderr: ended });
  api.intercept();
  expect(await startPetstore(words, { shell: "ulimit -f 1;" }).ended).toMatchObject({
    exit: 1,
    stderr: ended,
  });
  expect(await left()).toEqual([earlier]);
  expect(await findLastBackup(keys)).toBeNull();
});

it("a backup that can't be recorded is complete, and says why status will not show it", async () => {
  beginAt(NOW);
  await fill("petstore-2026-11-01T031700Z.backup");
  api.intercept(async (_, body, send) => {
    if (body.includes("INTO backups")) throw apiError(400, 7500, "database or disk is full: SQLITE_FULL");
    await send();
  });
  const path = join(folder, "petstore-2026-11-28T031700Z.backup");
  const outcome = await backUp("--keep 1", "--remote");
  const warning = `^warning: ${path} is complete, but status will not show it: .*full: SQLITE_FULL.*\n$`;
  expect(outcome).toEqual({ ...SILENT_SUCCESS, stderr: expect.stringMatching(new RegExp(warning)) });
  expect((await runPetstore(`restore --from ${path} --dry-run`)).exitCode).toBe(0);
  expect(await left()).toEqual(["petstore-2026-11-28T031700Z.backup"]);
  // Before the migration.
  const { keys, close } = await openDatabases({ kind: "local", state }, "keys");
  onTestFinished(close);
  const migration = "DELETE FROM d1_migrations WHERE name = '0009_backups_and_sizes.sql'";
  for (const sql of ["DROP TABLE backups", "DROP TABLE database_sizes", migration])
    await keys.prepare(sql).run();
  const pending = expect.stringMatching(
    /^warning: .* status will not show it: migrations are pending: run .*\n$/,
  );
  expect(await backUp()).toEqual({ ...SILENT_SUCCESS, stderr: pending });
  await migrate(keys, "keys");
});
