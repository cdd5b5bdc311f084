// npx petstore keys: what each subcommand does, records and prints, and what it refuses. Most tests use production's database, on a fake
// of Cloudflare's API; a local one takes longer to open.

import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { migrate, openDatabases } from "../../scripts/cloudflare/database.ts";
import { BANNED } from "../../src/keys/object/ban-record.ts";
import { createKey, renameKey } from "../../src/operators/admin.ts";
import { KEY_CHANGES } from "../../src/operators/changes.ts";
import type { LIST_STATES } from "../../src/operators/records.ts";
import { databaseOf, startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { emptyState, runProcess, runScript } from "../support/e2e/petstore.ts";
import { startWorkersAccount } from "../support/e2e/workers-account.ts";

const SECRET = /^pet_[0-9A-Za-z]{50}$/;
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
const DAY_MS = 86_400_000;

const account = await startWorkersAccount();
// Without a database of pets, which these commands don't need.
const api = await startCloudflareApi(account, ["petstore-keys"]);
const database = databaseOf(account, "petstore-keys");
const { state, remove } = await emptyState();

beforeAll(async () => {
  for (const [name, value] of Object.entries(api.environment)) vi.stubEnv(name, value);
  await migrate(database, "keys");
});

afterAll(async () => {
  api.stop();
  await account.stop();
  await remove();
});

/** Runs `npx petstore keys LINE`: where nobody can answer, or in a terminal where somebody types `stdin`. */
async function run(line: string, stdin?: string) {
  const { stderr, ...outcome } = await runPetstore(`keys ${line} --remote`, { stdin });
  return { ...outcome, stderr: stderr.replace("Opening production's database of keys\n", "") };
}

async function json(line: string) {
  return JSON.parse((await run(`${line} --json`)).stdout);
}

/** Creates a key without the command. With a negative lifetime it has expired. */
async function newKey(name = "Ann's shop", lifetimeMs?: number) {
  const expiresAtMs = lifetimeMs === undefined ? null : Date.now() + lifetimeMs;
  const operator = { by: "a test", nowMs: Date.now() - 60_000 };
  const { key, secret } = await createKey(database, { name, plan: "free", expiresAtMs }, operator);
  return { ...key, secret };
}

/** Records bans of a key that began now. */
async function recordBans(id: string, count: number): Promise<void> {
  const insert = database.prepare(
    "INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by) VALUES (?1, ?2, 'banned', ?3, 'a test')",
  );
  const until = new Date(Date.now() + 600_000).toISOString().replace(/\.\d+/, "");
  await database.batch(Array(count).fill(insert.bind(id, Date.now(), until)));
}

/** The row of a key in the table of `list`. */
async function rowOf(id: string): Promise<string | undefined> {
  return (await run(`list --search ${id}`)).stdout.split("\n").find((line) => line.startsWith(id));
}

/** The recorded changes of a key, as `CHANGE: FROM → TO (BY)`, the first one first. */
async function changesOf(id: string): Promise<string[]> {
  const changes: Record<string, string>[] = await json(`log ${id}`);
  return changes.map(({ change, from, to, by }) => `${change}: ${from} → ${to} (${by})`).reverse();
}

describe("on a local database", () => {
  it("create prints only the key on standard output, and show why its counts are unknown", async () => {
    const local = ["--persist-to", state];
    const { keys, close } = await openDatabases({ kind: "local", state }, "keys");
    await migrate(keys, "keys").finally(close);
    const args = ["create", "--name", "Jo's shop", "--plan", "free", ...local];
    const { stdout, stderr } = await runProcess("npx", ["petstore", "keys", ...args], {}, "docs");
    expect(stdout.trimEnd()).toMatch(SECRET);
    const [, id = ""] = stderr.match(/\nCreated (key_\w{12}) /) ?? [];
    expect(stderr).toContain(
      `${id} ("Jo's shop"): free plan, 60 requests per minute, 1000 per day, never expires.\n`,
    );
    // With a running service: usage.test.ts.
    expect((await runPetstore(["keys", "show", id, ...local])).stdout).toContain(
      `Counts: unknown: the local service counts, and it does not run: npm start -- --persist-to ${state}`,
    );
  });

  it("names the command that creates a missing database, and does not create it", async () => {
    for (const nowhere of [`${state}-missing`, dirname(state), import.meta.filename]) {
      const { exitCode, stderr } = await runPetstore(["keys", "list", "--persist-to", nowhere]);
      const advice = `create it with npm start -- --persist-to ${nowhere}`;
      const problem = `error: there is no database of keys in ${nowhere}: ${advice}\n`;
      expect([exitCode, stderr]).toEqual([1, problem]);
    }
    expect(existsSync(`${state}-missing`) || existsSync(join(dirname(state), "v3"))).toBe(false);
    const { stderr } = await runPetstore(["keys", "list", "--persist-to", `${state} two`]);
    expect(stderr).toContain(`npm start -- --persist-to '${state} two'\n`);
  });

  it("a failure ends the process of a command, although its local server may still run", async () => {
    const args = ["migrate", "--persist-to", import.meta.filename];
    const { exitCode, stdout, stderr } = await runScript("scripts/petstore.ts", args);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^Applying pending migrations of keys\nerror: [^\n]+\n$/);
  });
});

describe("npx petstore keys create", () => {
  it("prints exactly one JSON value with --json, and so does list", async () => {
    const agreed =
      "--plan enterprise --per-minute 7 --per-day 1000000000 --expires 2099-12-31T23:59:59+01:00";
    const { stdout, stderr } = await run(`create --name agreed ${agreed} --json`);
    const { id, key, ...rest } = JSON.parse(stdout);
    expect(rest).toEqual({ name: "agreed", plan: "enterprise", perMinute: 7, perDay: 1_000_000_000 });
    expect(stderr).toBe("");
    const listed = await run(`list --search ${id} --json`);
    expect(JSON.parse(listed.stdout)).toEqual([
      {
        id,
        ...rest,
        lastFour: key.slice(-4),
        createdAt: TIME,
        expiresAt: "2099-12-31T22:59:59Z",
        revokedAt: null,
        graceUntil: null,
        bannedUntil: null,
        bansInLast30Days: 0,
        state: "active",
        states: ["active"],
      },
    ]);
    expect(listed.stdout).not.toContain(key);
    expect(await rowOf(id)).toMatch(
      /^key_\w{12} {2}agreed {2}enterprise +7 +1000000000 +\w{4} +20\d\d-\d\d-\d\d +2099-\S+Z +active$/,
    );
  });

  it("warns of limits that make no sense, and of a name that exists or is shown otherwise", async () => {
    const { id } = await newKey("Twin&Sons");
    const { exitCode, stderr } = await run(
      "create --name Twin&Sons --plan enterprise --per-minute 5000 --per-day 10",
    );
    expect(exitCode).toBe(0);
    expect(stderr).toContain("warning: the day's limit (10) is smaller than the minute's (5000)\n");
    expect(stderr).toContain(`warning: another key has this name: ${id} ("Twin&Sons", ending in `);
    expect((await run("create --name Twin --plan free")).stderr).not.toContain("warning");
    expect((await run("create --name Jo\u202e --plan free")).stderr).toContain(
      'warning: some characters of the name are not printable: "?" is shown\n',
    );
  });
});

it("a key on a plan that this version does not know is named, beside the others, and can be changed", async () => {
  const { id } = await newKey("later");
  const { id: other } = await newKey("later too");
  await database.prepare("UPDATE keys SET plan = 'of-later' WHERE id = ?1").bind(id).run();
  const listed = await run("list --search later");
  expect(listed.stdout).toMatch(new RegExp(`\n${id}  later +of-later +unknown +unknown `));
  expect(listed.stdout).toContain(`${other}  later too`);
  const warning = `warning: the key ${id} has no limits: its plan, of-later, is unknown to this version.`;
  expect(listed.stderr).toContain(warning);
  const shown = await run(`show ${id} --json`);
  expect(shown.stderr).toContain(warning);
  expect(JSON.parse(shown.stdout)).toMatchObject({ plan: "of-later", perMinute: null, perDay: null });
  expect(await json(`plan ${id} pro`)).toMatchObject({ plan: "pro", perMinute: 300 });
});

describe("npx petstore keys list", () => {
  let last: Awaited<ReturnType<typeof newKey>>;

  beforeAll(async () => {
    const create = async (name: string, ...lifetimeMs: number[]) =>
      (await newKey(`~${name}`, ...lifetimeMs)).id;
    await create("expiring", 29 * DAY_MS);
    await create("expired", -1);
    await run(`rotate ${await create("fresh", 31 * DAY_MS)} --yes`);
    await run(`rotate ${await create("in grace")} --grace 60 --yes`);
    await recordBans(await create("banned"), 1);
    const unbanned = await create("unbanned");
    await recordBans(unbanned, 3);
    await run(`unban ${unbanned}`);
    await run(`revoke ${await create("revoked", -1)} --yes`);
    const inGrace = await create("revoked in grace");
    await run(`rotate ${inGrace} --grace 60 --yes`);
    await run(`revoke ${inGrace} --yes`);
    await run("create --name ~日本語 --plan pro");
    last = await newKey("~last");
  });

  /** The names of the keys that are found. */
  async function found(query: string): Promise<string[]> {
    const lines = (await run(`list ${query} --json-lines`)).stdout.split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line).name.replace("~", ""));
  }

  const STATES = {
    active: ["expiring", "fresh", "in grace", "last", "unbanned", "日本語"],
    banned: ["banned"],
    expiring: ["expiring"],
    "in-grace": ["in grace"],
    expired: ["expired"],
    revoked: ["revoked", "revoked in grace"],
  } satisfies Record<(typeof LIST_STATES)[number], string[]>;

  it.each<[string, string[]]>([
    ...Object.entries(STATES).map(([name, names]): [string, string[]] => [
      `--state ${name} --sort name`,
      names,
    ]),
    ["--plan pro", ["日本語"]],
    ["--sort bans --limit 1", ["unbanned"]],
    ["--sort expires --limit 1 --state active", ["expiring"]],
    ["--page 2", []],
  ])("%s", async (query, names) => {
    expect(await found(`--search ~ ${query}`)).toEqual(names);
  });

  it("finds a key by a part of its id, by the end of its secret, and by its name in any case", async () => {
    for (const query of [last.id.slice(6, 14), last.lastFour, "~LAST"])
      expect(await found(`--search ${query}`)).toContain("last");
  });

  it("shows pages of the table, and keeps wide names in their column", async () => {
    const page = (number: number) => run(`list --search ~ --sort name --limit 9 --page ${number}`);
    const { stdout, stderr } = await page(1);
    expect(stdout).toMatch(
      /^ID .*\nkey_\w{12} {2}~banned .* banned until \d{4}-\S+Z +1\n(.*\n)*.*~unbanned .* 3 TIMES\n/,
    );
    expect(stderr).toBe("Keys 1 to 9 of 10; --page 2 shows the next.\n");
    const second = await page(2);
    // Each of the three characters takes two columns.
    expect(second.stdout).toMatch(/^ID {16}NAME {5}PLAN .*\nkey_\w{12} {2}~日本語 {2}pro /);
    expect(second.stderr).toBe("Keys 10 to 10 of 10.\n");
    expect(await page(3)).toEqual({ exitCode: 0, stdout: "", stderr: "There is no page 3.\n" });
  });
});

it("npx petstore keys revoke ends a key for good, after saying whose it is", async () => {
  const { id, lastFour } = await newKey();
  const refused = await run(`revoke ${id}`);
  expect([refused.exitCode, refused.stdout]).toEqual([2, ""]);
  expect(refused.stderr).toContain("add --yes");
  for (const answer of ["n\n", ""]) expect((await run(`revoke ${id}`, answer)).exitCode).toBe(1);
  expect(await rowOf(id)).toMatch(/ active$/);

  const { exitCode, stdout, stderr } = await run(`revoke ${id}`, "y\n");
  expect([exitCode, stdout]).toEqual([0, expect.stringContaining(`Revoked ${id} ("Ann's shop")`)]);
  const owner = `${id} \\("Ann's shop", ending in ${lastFour}, created \\d{4}-\\d\\d-\\d\\d\\)`;
  expect(stderr).toMatch(new RegExp(`This ends ${owner} for good`));
  expect(await rowOf(id)).toMatch(/ revoked$/);
});

it("npx petstore keys rotate prints a new key for the same id, and when the old one ends", async () => {
  const { id, secret, expiresAtMs } = await newKey("Ann's shop", DAY_MS);
  const { stdout, stderr } = await run(`rotate ${id} --grace 3600 --yes`);
  const second = stdout.trim();
  expect(second).toMatch(SECRET);
  expect(stderr).toMatch(/The current key of .* stops working everywhere at \d{4}-\S+Z\.\n/);
  expect(stderr).toMatch(/Rotated key_\w{12} \("Ann's shop"\): free plan/);
  expect(await json(`show ${id}`)).toMatchObject({ lastFour: second.slice(-4) });
  const { key: third, ...rest } = await json(`rotate ${id} --yes`);
  expect(rest).toEqual({ id, name: "Ann's shop", plan: "free", perMinute: 60, perDay: 1_000 });
  expect(new Set([secret, second, third]).size).toBe(3);

  const end = new Date(expiresAtMs ?? 0).toISOString().replace(/\.\d+Z/, "Z");
  const long = await run(`rotate ${id} --grace 2592000 --yes`);
  expect(long.stderr).toContain(`stops working everywhere at ${end}.`);
  const short = await run(`rotate ${id} --grace 29 --yes`);
  expect(short.stderr).toContain("stops working everywhere within 30 seconds.");
});

it("every change is recorded, with the values before and after, and who made it", async () => {
  const { id, lastFour } = await newKey();
  await recordBans(id, 1);
  const COMMANDS = [
    ["rename ID Ann&Jo", "renamed: Ann's shop → Ann&Jo"],
    ["plan ID enterprise --per-minute 7 --per-day 70", "plan: free → enterprise 7/min 70/day"],
    ["plan ID pro", "plan: enterprise 7/min 70/day → pro"],
    ["expire ID 2099-01-31", "expiry: never → 2099-01-31T00:00:00Z"],
    ["expire ID never", "expiry: 2099-01-31T00:00:00Z → never"],
    ["rotate ID --yes", `rotated: ${lastFour} → \\w{4}`],
    ["unban ID", "unbanned: \\d{4}-\\S+Z → null"],
    ["unban ID", "unbanned: null → null"],
  ] as const;
  for (const [line] of COMMANDS) await run(`${line.replace("ID", id)} --by Jo`);
  const revoked = await json(`revoke ${id} --yes`);
  expect(revoked).toMatchObject({ name: "Ann&Jo", plan: "pro", state: "revoked", revokedAt: TIME });
  expect(await json(`list --search ${id}`)).toEqual([revoked]);
  const changes = await changesOf(id);
  expect(changes).toEqual([
    "created: null → free (a test)",
    expect.stringMatching(/^banned: null → \d{4}-\S+Z \(a test\)$/),
    ...COMMANDS.map(([, change]) => expect.stringMatching(new RegExp(`^${change} \\(Jo\\)$`))),
    `revoked: null → null (${userInfo().username})`,
  ]);
  // Each kind of change has a command.
  const kinds = [...Object.keys(KEY_CHANGES), BANNED, "created"];
  expect(new Set(changes.map((change) => change.split(":")[0]))).toEqual(new Set(kinds));
  expect((await run("log")).stdout).toMatch(new RegExp(`${id} +Ann&Jo +rotated +${lastFour} +\\w{4} +Jo\n`));
});

it("npx petstore keys show shows all about a key, and why its counts are unknown", async () => {
  const { id } = await newKey();
  await run(`rotate ${id} --grace 60 --yes`);
  await renameKey(database, id, "Ann\u202e\nshop", { by: "a test", nowMs: Date.now() });
  const { stdout } = await run(`show ${id}`);
  // Characters that could deceive the reader of a terminal.
  expect(stdout).toMatch(new RegExp(`^${id} {2}Ann\\?\\?shop\n`));
  expect(stdout).toMatch(/\nState +active, in-grace\n/);
  expect(stdout).toMatch(/\nOld keys +valid until \d{4}-\S+Z\n/);
  expect(stdout).toContain("\nCounts: unknown: Cloudflare's API refused: ");
  expect(stdout).toMatch(/ +renamed +Ann's shop +Ann\?\?shop +a test\n/);
  const details = await json(`show ${id}`);
  expect(details).toMatchObject({ id, state: "active", windows: null, days: null });
  expect(details).toMatchObject({ graces: [TIME], changes: { length: 3 } });
});

it("changes of a key that is unknown, revoked or expired are refused; an expired key can be prolonged", async () => {
  const { id: revoked } = await newKey();
  await run(`revoke ${revoked} --yes`);
  const { id: expired } = await newKey("expired", -1);
  const unknown = "key_000000000000";
  const needActive = ["rotate ID --yes", "plan ID pro", "unban ID"];
  const changes = [...needActive, "revoke ID --yes", "rename ID other", "expire ID never"];
  for (const [id, lines, problem] of [
    [unknown, ["show ID", ...changes], `there is no key ${unknown}: see npx petstore keys list`],
    [revoked, changes, `${revoked} is revoked, for good: nothing about it can be changed`],
    [expired, needActive, `${expired} has expired: npx petstore keys expire ${expired} DATE moves its end`],
  ] as const) {
    const stderr = expect.stringMatching(new RegExp(`(^|\n)error: ${problem}\n$`));
    for (const line of lines)
      expect(await run(line.replace("ID", id))).toEqual({ exitCode: 1, stdout: "", stderr });
  }
  expect(await changesOf(revoked)).toHaveLength(2);
  expect((await run(`expire ${expired} 2099-01-31`)).stdout).toContain("expires 2099-01-31T00:00:00Z.");
  expect(await rowOf(expired)).toMatch(/ 2099-01-31 +active$/);
});

it("a key that is given instead of an id is not printed", async () => {
  const { id, secret } = await newKey();
  for (const line of [`revoke ${secret}`, `revoke ${id} ${secret}`, `list --${secret}`]) {
    const { exitCode, stderr } = await run(line);
    expect([exitCode, stderr.includes(secret.slice(4, 20))]).toEqual([2, false]);
    expect(stderr).toContain("pet_…");
  }
});
