// npx petstore keys on a local database of keys: what each subcommand does, records and prints, and what it refuses.

import { existsSync } from "node:fs";
import { cp } from "node:fs/promises";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type OpenDatabases, openDatabases } from "../../scripts/cloudflare/database.ts";
import { BANNED } from "../../src/keys/object/ban-record.ts";
import { createKey, renameKey } from "../../src/operators/admin.ts";
import { KEY_CHANGES } from "../../src/operators/changes.ts";
import { findKeyById } from "../../src/operators/records.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { migrateEmpty } from "../support/e2e/migrations.ts";
import { emptyState, type Outcome, runProcess, runScript } from "../support/e2e/petstore.ts";

const SECRET = /^pet_[0-9A-Za-z]{50}$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const DAY_MS = 86_400_000;

let state: string;
let remove: () => Promise<void>;
let opened: OpenDatabases<"keys">;
/** The outcome of `create` in a process of its own. */
let created: Outcome;

beforeAll(async () => {
  ({ state, remove } = await emptyState());
  const original = `${state}-original`;
  const empty = await openDatabases({ kind: "local", state: original }, "keys");
  await migrateEmpty(empty.keys, "keys").finally(empty.close);
  const args = ["create", "--name", "Jo's shop", "--plan", "free", "--persist-to", original];
  created = await runProcess("npx", ["petstore", "keys", ...args], {}, "docs");
  // A copy of the folder is a backup: all tests use it.
  await cp(original, state, { recursive: true });
  opened = await openDatabases({ kind: "local", state }, "keys");
});

afterAll(async () => {
  await opened?.close();
  await remove();
});

// Opening a database takes longer than all else that a command does, so commands on it share one.
vi.mock(import("../../scripts/cloudflare/database.ts"), async (original) => {
  const actual = await original();
  const shared = async (...args: Parameters<typeof actual.openDatabases>) => {
    const [target] = args;
    const isShared = opened && target.kind === "local" && target.state === state;
    return isShared ? { ...opened, close: async () => {} } : actual.openDatabases(...args);
  };
  return { ...actual, openDatabases: shared as typeof actual.openDatabases };
});

/** Runs `npx petstore keys LINE` on this file's database: where nobody can answer, or in a terminal where somebody types `stdin`. */
function run(line: string, stdin?: string) {
  const args = ["keys", ...line.split(" "), "--persist-to", state];
  return runPetstore(args, { stdin: stdin ?? "", isTTY: stdin !== undefined });
}

async function json(line: string) {
  return JSON.parse((await run(`${line} --json`)).stdout);
}

/** Creates a key without the command. With a negative lifetime it has expired. */
async function newKey(lifetimeMs?: number, name = "Ann's shop") {
  const expiresAtMs = lifetimeMs === undefined ? null : Date.now() + lifetimeMs;
  const newKey = { name, plan: "free", expiresAtMs } as const;
  const operator = { by: "a test", nowMs: Date.now() - 60_000 };
  const { key, secret } = await createKey(opened.keys, newKey, operator);
  return { id: key.id, key: secret, lastFour: key.lastFour, expiresAtMs };
}

/** Records bans of a key that began now. */
async function recordBans(id: string, count: number): Promise<void> {
  const insert = opened.keys.prepare(
    "INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by) VALUES (?1, ?2, 'banned', ?3, 'a test')",
  );
  const until = new Date(Date.now() + 600_000).toISOString().replace(/\.\d+/, "");
  for (let ban = 0; ban < count; ban += 1) await insert.bind(id, Date.now(), until).run();
}

/** The row of a key in the table of `list`. */
async function rowOf(id: string): Promise<string | undefined> {
  return (await run(`list --search ${id}`)).stdout.split("\n").find((line) => line.startsWith(id));
}

/** The recorded changes of a key, as `CHANGE: FROM → TO (BY)`, the latest first. */
async function changesOf(id: string): Promise<string[]> {
  const changes: Record<string, string>[] = await json(`log ${id}`);
  return changes.map(({ change, from, to, by }) => `${change}: ${from} → ${to} (${by})`);
}

describe("npx petstore keys create", () => {
  it("prints only the key on standard output, which list does not show", async () => {
    const secret = created.stdout.trim();
    expect(secret).toMatch(SECRET);
    expect(created.stderr).toMatch(
      /Created key_\w{12} \("Jo's shop"\): free plan, 60 requests per minute, 1000 per day, never expires\./,
    );
    const table = (await run("list --search Jo's")).stdout;
    expect(table).toMatch(
      /\nkey_\w{12} {2}Jo's shop +free +60 +1000 +\w{4} +\d{4}-\d\d-\d\d +never +active$/m,
    );
    expect(table).toContain(secret.slice(-4));
    expect(table).not.toContain(secret.slice(0, 20));
  });

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
        createdAt: expect.stringMatching(TIME),
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
  });

  it("creates more keys than one statement takes, each on a line, with numbered names", async () => {
    const { stdout } = await run("create --name many --plan free --count 501 --by Ann --json-lines");
    const lines = stdout.trim().split("\n");
    const many: Record<string, string>[] = lines.map((line) => JSON.parse(line));
    const names = Array.from({ length: 501 }, (_, index) => `many ${index + 1}`);
    expect(many.map(({ name }) => name)).toEqual(names);
    expect(new Set(many.map(({ key }) => key)).size).toBe(501);
    expect(many.every(({ key = "" }) => SECRET.test(key))).toBe(true);
    expect(await changesOf(many[500]?.id ?? "")).toEqual(["created: null → free (Ann)"]);
  });

  it("warns of limits that make no sense, and of a name that exists or is shown otherwise", async () => {
    const { id } = await newKey(undefined, "Twin&Sons");
    const twin = "create --name Twin&Sons --plan enterprise --per-minute 5000 --per-day 10";
    const { exitCode, stderr } = await run(twin);
    expect(exitCode).toBe(0);
    expect(stderr).toContain("warning: the day's limit (10) is smaller than the minute's (5000)\n");
    expect(stderr).toContain(`warning: another key has this name: ${id} ("Twin&Sons", ending in `);
    const similar = await run("create --name Twin --plan free");
    expect(similar.stderr).not.toContain("warning");
    const invisible = await run("create --name Jo\u202e --plan free");
    expect(invisible.stderr).toContain(
      'warning: some characters of the name are not printable: "?" is shown\n',
    );
  });
});

it("a key on a plan that this version does not know is named, beside the others, and can be changed", async () => {
  const { id } = await newKey(undefined, "later");
  const { id: other } = await newKey(undefined, "later too");
  await opened.keys.prepare("UPDATE keys SET plan = 'of-later' WHERE id = ?1").bind(id).run();
  const listed = await run("list --search later");
  expect(listed.stdout).toMatch(new RegExp(`\n${id}  later +of-later +unknown +unknown `));
  expect(listed.stdout).toContain(`${other}  later too`);
  const warning = `warning: the key ${id} has no limits: its plan, of-later, is unknown to this version.`;
  for (const line of ["list --search later", "list --search later --json", `show ${id}`])
    expect((await run(line)).stderr).toContain(warning);
  expect(await json(`show ${id}`)).toMatchObject({ plan: "of-later", perMinute: null, perDay: null });
  expect(await json(`plan ${id} pro`)).toMatchObject({ plan: "pro", perMinute: 300 });
  expect((await run("list --search later")).stderr).toBe("");
});

describe("npx petstore keys list", () => {
  it("finds keys by their state", async () => {
    const create = async (kind: string, lifetimeMs?: number) =>
      (await newKey(lifetimeMs, `state ${kind}`)).id;
    await create("expiring", 29 * DAY_MS);
    await create("expired", -1);
    await run(`rotate ${await create("fresh", 31 * DAY_MS)} --yes`);
    await run(`rotate ${await create("in grace")} --grace 60 --yes`);
    await recordBans(await create("banned"), 1);
    const unbanned = await create("unbanned");
    await recordBans(unbanned, 1);
    await run(`unban ${unbanned}`);
    await run(`revoke ${await create("revoked", -1)} --yes`);
    const revokedInGrace = await create("revoked in grace");
    await run(`rotate ${revokedInGrace} --grace 60 --yes`);
    await run(`revoke ${revokedInGrace} --yes`);
    const found = async (state: string) => {
      const listed: { name: string }[] = await json(`list --search STATE --sort name --state ${state}`);
      return listed.map(({ name }) => name.replace("state ", ""));
    };
    expect(await found("active")).toEqual(["expiring", "fresh", "in grace", "unbanned"]);
    expect(await found("banned")).toEqual(["banned"]);
    expect(await found("expiring")).toEqual(["expiring"]);
    expect(await found("in-grace")).toEqual(["in grace"]);
    expect(await found("expired")).toEqual(["expired"]);
    expect(await found("revoked")).toEqual(["revoked", "revoked in grace"]);
  });

  it("finds a key by a part of its id and by the end of its secret, and filters by plan", async () => {
    const { id, lastFour } = await newKey(undefined, "to be found");
    const finds = async (query: string) => {
      const lines = (await run(`list --search ${query} --json-lines`)).stdout.split("\n").slice(0, -1);
      return lines.some((line) => JSON.parse(line).id === id);
    };
    expect(await finds(id.slice(6, 14))).toBe(true);
    expect(await finds(`${lastFour} --plan free`)).toBe(true);
    expect(await finds(`${lastFour} --plan pro`)).toBe(false);
    expect(await finds("lost")).toBe(false);
  });

  it("shows pages of the table, in the order that was asked for, and keeps wide names in their column", async () => {
    for (const name of ["日本語-page", "a-page", "Zoë-page"]) await newKey(undefined, name);
    const page = (number: number) => run(`list --search -page --sort name --limit 2 --page ${number}`);
    const first = await page(1);
    expect(first.stdout.match(/(a|Zoë|日本語)-page/g)).toEqual(["a-page", "Zoë-page"]);
    expect(first.stderr).toBe("Keys 1 to 2 of 3; --page 2 shows the next.\n");
    const second = await page(2);
    // Each of the three characters takes two columns.
    expect(second.stdout).toMatch(/^ID {16}NAME {9}PLAN .*\nkey_\w{12} {2}日本語-page {2}free /);
    expect(second.stderr).toBe("Keys 3 to 3 of 3.\n");
    expect(await json("list --search -page --page 2")).toEqual([]);
    expect(await page(3)).toEqual({ exitCode: 0, stdout: "", stderr: "There is no page 3.\n" });
  });

  it("shows that a key is banned again and again", async () => {
    const [once, often] = [await newKey(), await newKey()];
    await recordBans(once.id, 1);
    await recordBans(often.id, 3);
    expect(await rowOf(once.id)).toMatch(/ banned until \d{4}-\S+Z +1$/);
    expect(await rowOf(often.id)).toMatch(/ banned until \S+Z +3 TIMES$/);
    const [first] = await json("list --sort bans --limit 1");
    expect(first).toMatchObject({ id: often.id, bansInLast30Days: 3 });
  });
});

it("npx petstore keys revoke ends a key for good, after saying whose it is", async () => {
  const { id, lastFour } = await newKey();
  const refused = await run(`revoke ${id}`);
  expect([refused.exitCode, refused.stdout]).toEqual([2, ""]);
  expect(refused.stderr).toContain("add --yes");
  const declined = await run(`revoke ${id}`, "n\n");
  expect([declined.exitCode, await rowOf(id)]).toEqual([1, expect.stringMatching(/ active$/)]);
  expect((await run(`revoke ${id}`, "")).exitCode).toBe(1);

  const { exitCode, stdout, stderr } = await run(`revoke ${id}`, "y\n");
  expect([exitCode, stdout]).toEqual([0, expect.stringContaining(`Revoked ${id} ("Ann's shop")`)]);
  const owner = `${id} \\("Ann's shop", ending in ${lastFour}, created \\d{4}-\\d\\d-\\d\\d\\)`;
  expect(stderr).toMatch(new RegExp(`This ends ${owner} for good`));
  expect(await rowOf(id)).toMatch(/ revoked$/);
});

it("npx petstore keys rotate prints a new key for the same id, and when the old one ends", async () => {
  const { id, key, expiresAtMs } = await newKey(DAY_MS);
  const { stdout, stderr } = await run(`rotate ${id} --grace 3600 --yes`);
  const secret = stdout.trim();
  expect(secret).toMatch(SECRET);
  expect(stderr).toMatch(/The current key of .* stops working everywhere at \d{4}-\S+Z\.\n/);
  expect(stderr).toMatch(/Rotated key_\w{12} \("Ann's shop"\): free plan/);
  expect((await findKeyById(opened.keys, id, Date.now()))?.lastFour).toBe(secret.slice(-4));
  const { key: another, ...rest } = await json(`rotate ${id} --yes`);
  expect(rest).toEqual({ id, name: "Ann's shop", plan: "free", perMinute: 60, perDay: 1_000 });
  expect(new Set([key, secret, another]).size).toBe(3);

  const end = new Date(expiresAtMs ?? 0).toISOString().replace(/\.\d+Z/, "Z");
  const long = await run(`rotate ${id} --grace 2592000 --yes`);
  expect(long.stderr).toContain(`stops working everywhere at ${end}.`);
  const short = await run(`rotate ${id} --grace 29 --yes`);
  expect(short.stderr).toContain("stops working everywhere within 30 seconds.");
});

it("every change is recorded, with the values before and after, and who made it", async () => {
  const { id, lastFour } = await newKey();
  await run(`rename ${id} Ann&Jo --by Jo`);
  await run(`plan ${id} enterprise --per-minute 7 --per-day 1000000000 --by Jo`);
  const changed = await json(`plan ${id} pro --by Jo`);
  expect(changed).toMatchObject({ name: "Ann&Jo", plan: "pro", perMinute: 300, perDay: 10_000 });
  await run(`expire ${id} 2099-01-31 --by Jo`);
  await run(`expire ${id} never --by Jo`);
  const rotated = (await run(`rotate ${id} --by Jo --yes`)).stdout.trim();
  await recordBans(id, 1);
  await run(`unban ${id} --by Jo`);
  await run(`unban ${id} --by Ann`);
  const revoked = await json(`revoke ${id} --yes`);
  expect(revoked).toMatchObject({ id, state: "revoked", revokedAt: expect.stringMatching(TIME) });
  expect(await json(`list --search ${id}`)).toEqual([revoked]);
  expect((await changesOf(id)).reverse()).toEqual([
    "created: null → free (a test)",
    "renamed: Ann's shop → Ann&Jo (Jo)",
    "plan: free → enterprise 7/min 1000000000/day (Jo)",
    "plan: enterprise 7/min 1000000000/day → pro (Jo)",
    "expiry: never → 2099-01-31T00:00:00Z (Jo)",
    "expiry: 2099-01-31T00:00:00Z → never (Jo)",
    `rotated: ${lastFour} → ${rotated.slice(-4)} (Jo)`,
    expect.stringMatching(/^banned: null → \d{4}-\S+Z \(a test\)$/),
    expect.stringMatching(/^unbanned: \d{4}-\S+Z → null \(Jo\)$/),
    "unbanned: null → null (Ann)",
    `revoked: null → null (${userInfo().username})`,
  ]);
  // Each kind of change has a command.
  const kinds: { change: string }[] = await json(`log ${id}`);
  const all = [...Object.keys(KEY_CHANGES), BANNED, "created"];
  expect(new Set(kinds.map(({ change }) => change))).toEqual(new Set(all));
  const log = await run("log");
  expect(log.stdout).toMatch(new RegExp(`${id} +Ann&Jo +rotated +${lastFour} +${rotated.slice(-4)} +Jo\n`));
  expect(log.stdout).not.toContain(rotated);
});

it("an expired key can be prolonged", async () => {
  const { id } = await newKey(-1);
  expect(await rowOf(id)).toMatch(/ expired$/);
  expect((await run(`expire ${id} 2099-01-31`)).stdout).toContain("expires 2099-01-31T00:00:00Z.");
  expect(await rowOf(id)).toMatch(/ 2099-01-31 +active$/);
});

// With a running service: usage.test.ts.
it("npx petstore keys show shows all about a key, and why its counts are unknown", async () => {
  const { id } = await newKey();
  await run(`rotate ${id} --grace 60 --yes`);
  await renameKey(opened.keys, id, "Ann\u202e\nshop", { by: "a test", nowMs: Date.now() });
  const { stdout } = await run(`show ${id}`);
  // Characters that could deceive the reader of a terminal.
  expect(stdout).toMatch(new RegExp(`^${id} {2}Ann\\?\\?shop\n`));
  expect(stdout).toMatch(/\nState +active, in-grace\n/);
  expect(stdout).toMatch(/\nOld keys +valid until \d{4}-\S+Z\n/);
  expect(stdout).toContain(
    `Counts: unknown: the local service counts, and it does not run: npm start -- --persist-to ${state}`,
  );
  expect(stdout).toMatch(/ +renamed +Ann's shop +Ann\?\?shop +a test\n/);
  const details = await json(`show ${id}`);
  expect(details).toMatchObject({ id, state: "active", windows: null, days: null });
  expect(details).toMatchObject({ graces: [expect.stringMatching(TIME)], changes: { length: 3 } });
});

const ID = "key_000000000000";

describe("a failure ends with exit code 1 and one line", () => {
  it("for changes of a key that is unknown, revoked or expired", async () => {
    const { id: revoked } = await newKey();
    await run(`revoke ${revoked} --yes`);
    const { id: expired } = await newKey(-1);
    const needActive = ["rotate ID --yes", "plan ID pro", "unban ID"];
    const changes = [...needActive, "revoke ID --yes", "rename ID other", "expire ID never"];
    for (const [id, lines, problem] of [
      [ID, ["show ID", ...changes], `there is no key ${ID}: see npx petstore keys list`],
      [revoked, changes, `${revoked} is revoked, for good: nothing about it can be changed`],
      [expired, needActive, `${expired} has expired: npx petstore keys expire ${expired} DATE moves its end`],
    ] as const) {
      const stderr = expect.stringMatching(new RegExp(`(^|\n)error: ${problem}\n$`));
      for (const line of lines)
        expect(await run(line.replace("ID", id))).toEqual({ exitCode: 1, stdout: "", stderr });
    }
    expect(await changesOf(revoked)).toHaveLength(2);
  });

  it("does not print a key that is given instead of an id", async () => {
    const { key } = await newKey();
    for (const line of [`revoke ${key}`, `revoke ${ID} ${key}`, `list --${key}`]) {
      const { exitCode, stderr } = await run(line);
      expect([exitCode, stderr.includes(key.slice(4, 20))]).toEqual([2, false]);
      expect(stderr).toContain("pet_…");
    }
  });

  it("names the command that creates a missing database, and does not create it", async () => {
    for (const nowhere of [`${state}-missing`, dirname(state), import.meta.filename]) {
      const { exitCode, stderr } = await runPetstore(["keys", "list", "--persist-to", nowhere]);
      const advice = `create it with npm start -- --persist-to ${nowhere}`;
      expect([exitCode, stderr]).toEqual([
        1,
        `error: there is no database of keys in ${nowhere}: ${advice}\n`,
      ]);
    }
    expect(existsSync(`${state}-missing`) || existsSync(join(dirname(state), "v3"))).toBe(false);
    const { stderr } = await runPetstore(["keys", "list", "--persist-to", `${state} two`]);
    expect(stderr).toContain(`npm start -- --persist-to '${state} two'\n`);
  });

  it("ends the process of a command whose local server may still run", async () => {
    const args = ["--persist-to", import.meta.filename];
    const { exitCode, stdout, stderr } = await runScript("scripts/petstore.ts", ["migrate", ...args]);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^Applying pending migrations of keys\nerror: [^\n]+\n$/);
  });
});
