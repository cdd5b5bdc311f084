import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { applyMigrations, type OpenDatabase, openDatabase } from "../../scripts/cloudflare/database.ts";
import { keys } from "../../scripts/keys.ts";
import { createKey } from "../../src/keys/admin.ts";
import { findKeyById } from "../../src/keys/records.ts";
import { runInProcess } from "../support/e2e/in-process.ts";
import { emptyState, keys as npmRunKeys, runScript } from "../support/e2e/petstore.ts";

const SECRET = /^pet_[0-9A-Za-z]{38}$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

let state: string;
let remove: () => Promise<void>;
let opened: OpenDatabase;

beforeAll(async () => {
  ({ state, remove } = await emptyState());
  await applyMigrations({ kind: "local", state });
  opened = await openDatabase({ kind: "local", state });
});

afterAll(async () => {
  await opened?.close();
  await remove();
});

/** Runs the command on this file's database. */
function run(...args: string[]) {
  return runInProcess("keys", keys, [...args, "--persist-to", state]);
}

/** Creates a key without the command. With a negative lifetime it has expired. */
async function newKey(lifetimeMs?: number) {
  const expiresAtMs = lifetimeMs === undefined ? null : Date.now() + lifetimeMs;
  const newKey = { name: "Ann's shop", plan: "free", expiresAtMs } as const;
  const { key, secret } = await createKey(opened.database, newKey, {
    by: "test",
    nowMs: Date.now() - 60_000,
  });
  return { id: key.id, key: secret, expiresAtMs };
}

/** The row of a key in the table of `list`. */
async function rowOf(id: string): Promise<string | undefined> {
  return (await run("list")).stdout.split("\n").find((line) => line.startsWith(id));
}

describe("npm run keys -- create", () => {
  it("prints the key, which list does not show", async () => {
    const args = ["--name", "Jo's shop", "--plan", "free", "--persist-to", state];
    const { stdout } = await npmRunKeys("create", ...args);
    const [secret = "", ...rest] = stdout.split("\n");
    expect(secret).toMatch(SECRET);
    expect(rest.join("\n")).toMatch(
      /Created key_\w{12} \("Jo's shop"\): free plan, 60 requests per minute, 1000 per day\./,
    );

    const table = (await run("list")).stdout;
    const row = table.split("\n").find((line) => line.includes("Jo's shop"));
    expect(row).toMatch(
      /^key_\w{12} {2}Jo's shop +free +60 +1000 +\w{4} +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ +never +active$/,
    );
    expect(row).toContain(secret.slice(-4));
    expect(table).not.toContain(secret.slice(0, 20));
  });

  it("prints exactly one JSON value with --json, and so does list", async () => {
    const limits = ["--plan", "enterprise", "--per-minute", "7", "--per-day", "1000000000"];
    const expires = ["--expires", "2099-12-31T23:59:59+01:00"];
    const json = ["--json", "--persist-to", state];
    const created = await npmRunKeys("create", "--name", "agreed", ...limits, ...expires, ...json);
    const { id, key, ...rest } = JSON.parse(created.stdout);
    expect(rest).toEqual({ name: "agreed", plan: "enterprise", perMinute: 7, perDay: 1_000_000_000 });
    expect(created.stderr).toBe("");

    const listed = await npmRunKeys("list", ...json);
    const found = JSON.parse(listed.stdout).find((record: { id: string }) => record.id === id);
    expect(found).toEqual({
      id,
      ...rest,
      lastFour: key.slice(-4),
      createdAt: expect.stringMatching(TIME),
      expiresAt: "2099-12-31T22:59:59Z",
      revokedAt: null,
      state: "active",
    });
    expect(listed.stdout).not.toContain(key);
  });
});

describe("npm run keys -- revoke", () => {
  it("revokes a key permanently", async () => {
    const { id } = await newKey();
    const { exitCode, stdout } = await run("revoke", id);
    expect([exitCode, stdout]).toEqual([
      0,
      `Revoked ${id} ("Ann's shop") permanently. It stops working everywhere within 30 seconds.\n`,
    ]);
    expect(await rowOf(id)).toMatch(/ revoked$/);
    for (const [command, ...args] of [
      ["revoke", id],
      ["rotate", id],
      ["plan", id, "pro"],
    ] as const) {
      expect(await run(command, ...args)).toEqual({
        exitCode: 1,
        stdout: "",
        stderr: `${id} is already revoked: create another key with npm run keys -- create\n`,
      });
    }
  });

  it("prints the key like list with --json", async () => {
    const { id } = await newKey();
    const revoked = JSON.parse((await run("revoke", id, "--json")).stdout);
    expect(revoked).toMatchObject({ id, state: "revoked", revokedAt: expect.stringMatching(TIME) });
    expect(JSON.parse((await run("list", "--json")).stdout)).toContainEqual(revoked);
  });
});

describe("npm run keys -- rotate", () => {
  it("prints a new key for the same id, and the end of the grace", async () => {
    const { id, key } = await newKey();
    const { stdout } = await run("rotate", id, "--grace", "3600");
    const [secret = "", ...rest] = stdout.split("\n");
    expect(secret).toMatch(SECRET);
    expect(secret).not.toBe(key);
    expect(rest.join("\n")).toMatch(
      /Rotated key_\w{12} \("Ann's shop"\): free plan.*\nThe old key works until \d{4}-.*Z\.\n$/,
    );
    expect((await findKeyById(opened.database, id, Date.now()))?.lastFour).toBe(secret.slice(-4));
  });

  it("announces no grace beyond the key's expiry", async () => {
    const { id, expiresAtMs } = await newKey(86_400_000);
    const end = new Date(expiresAtMs ?? 0).toISOString().replace(/\.\d+Z/, "Z");
    expect((await run("rotate", id, "--grace", "2592000")).stdout).toContain(
      `The old key works until ${end}.`,
    );
  });

  it("announces no grace shorter than the time that a rotation takes to reach every isolate", async () => {
    const { id } = await newKey();
    expect((await run("rotate", id, "--grace", "29")).stdout).toContain(
      "The old key stops working everywhere within 30 seconds.",
    );
  });

  it("prints exactly one JSON value with --json", async () => {
    const { id, key } = await newKey();
    const { stdout, stderr } = await run("rotate", id, "--json");
    const { key: secret, ...rest } = JSON.parse(stdout);
    expect(rest).toEqual({ id, name: "Ann's shop", plan: "free", perMinute: 60, perDay: 1_000 });
    expect(secret).toMatch(SECRET);
    expect(secret).not.toBe(key);
    expect(stderr).toBe("");
  });
});

describe("npm run keys -- plan", () => {
  it("changes the plan of a key to enterprise and back", async () => {
    const { id } = await newKey();
    const { stdout } = await run("plan", id, "enterprise", "--per-minute", "7", "--per-day", "1000000000");
    expect(stdout).toContain(
      `Changed ${id} ("Ann's shop"): enterprise plan, 7 requests per minute, 1000000000 per day.`,
    );
    const back = await run("plan", id, "pro", "--json");
    expect(JSON.parse(back.stdout)).toMatchObject({ id, plan: "pro", perMinute: 300, perDay: 10_000 });
  });
});

describe("an expired key", () => {
  it("can be revoked, but not rotated or moved to another plan", async () => {
    const { id } = await newKey(-1);
    expect(await rowOf(id)).toMatch(/ expired$/);
    const message = `${id} has expired: create another key with npm run keys -- create\n`;
    expect((await run("plan", id, "pro")).stderr).toBe(message);
    expect((await run("rotate", id)).stderr).toBe(message);
    expect((await run("revoke", id)).exitCode).toBe(0);
  });
});

describe("wrong usage ends with exit code 1 and one line", () => {
  const ID = "key_000000000000";
  const create = (...args: string[]) => ["create", "--name", "x", ...args];
  const limits = (perMinute: string, perDay: string) => ["--per-minute", perMinute, "--per-day", perDay];
  const enterprise = (perMinute: string, perDay: string) =>
    create("--plan", "enterprise", ...limits(perMinute, perDay));

  it.each([
    [[], "the command must be one of create, list, revoke, rotate, plan"],
    [["frobnicate"], "the command must be one of create, list, revoke, rotate, plan"],
    [["delete", "1"], "the command must be one of create, list, revoke, rotate, plan"],
    [["list", "all"], 'unexpected argument "all" (did you forget -- after npm run keys?)'],
    [["list", "--name", "x"], "list does not accept --name"],
    [["create", "--plan", "free"], "--name is missing"],
    [["create", "--name=", "--plan", "free"], "--name must be 1 to 255 characters"],
    [["create", "--name", "x".repeat(256), "--plan", "free"], "--name must be 1 to 255 characters"],
    [create(), "--plan must be one of free, pro, business, enterprise"],
    [create("--plan", "gold"), "--plan must be one of"],
    [create("--plan", "toString"), "--plan must be one of"],
    [create("--plan", "enterprise"), "enterprise needs --per-minute and --per-day"],
    [create("--plan", "enterprise", "--per-day", "5"), "enterprise needs --per-minute and --per-day"],
    [create("--plan", "free", "--per-day", "5"), "--per-minute and --per-day are for enterprise only"],
    [enterprise("0", "5"), "--per-minute must be a number from 1 to 1000000000"],
    [enterprise("5", "1000000001"), "--per-day must be a number from 1 to 1000000000"],
    [enterprise("1e3", "5"), "--per-minute must be a number"],
    [enterprise("5", "9".repeat(400)), "--per-day must be a number"],
    [create("--plan", "free", "--expires", "2020-01-01"), "--expires must be in the future, got 2020-01-01"],
    [create("--plan", "free", "--expires", "2027-02-31"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "2027-01-31T25:00:00Z"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "2027-01-31T12:00:00"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "tomorrow"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "2027-01-31T12:00Z"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "2027-01-31T24:00:00Z"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "9999-12-31T23:59:59-23:59"), "--expires must be a date"],
    [create("--plan", "free", "--colour", "red"), "Unknown option '--colour'"],
    [create("--plan", "free", "--per.minute", "5"), "Unknown option '--per.minute'"],
    [["list", "--persist-to="], "--persist-to must name a folder"],
    [["list", "--remote"], "--persist-to, --preview and --remote are mutually exclusive"],
    [["list", "--preview", "staging"], "--persist-to, --preview and --remote are mutually exclusive"],
    [["revoke"], "revoke needs the ID of a key: see npm run keys -- list"],
    [["revoke", ID], `there is no key ${ID}: see npm run keys -- list`],
    [["rotate", ID], `there is no key ${ID}`],
    [["plan", ID, "pro"], `there is no key ${ID}`],
    [["revoke", "demo"], "ID must be a key's public ID, such as key_0123456789Ab, never the key itself"],
    [["revoke", "key_' OR 1=1--"], "ID must be a key's public ID"],
    [["revoke", ID, "key_000000000001"], 'unexpected argument "key_000000000001"'],
    [["revoke", ID, "--grace", "5"], "revoke does not accept --grace"],
    [["rotate", ID, "--grace", "-1"], "Option '--grace' argument is ambiguous"],
    [["rotate", ID, "--grace=-1"], "--grace must be a number of seconds from 0 to 2592000"],
    [["rotate", ID, "--grace", "1h"], "--grace must be a number of seconds"],
    [["rotate", ID, "--grace", "2592001"], "--grace must be a number of seconds"],
    [["plan", ID], "the plan must be one of free, pro, business, enterprise"],
    [["plan", ID, "gold"], "the plan must be one of"],
    [["plan", ID, "enterprise"], "enterprise needs --per-minute and --per-day"],
    [["plan", ID, "pro", "--per-day", "5"], "are for enterprise only: pro has fixed limits"],
    [["plan", ID, "pro", "--expires", "2099-01-01"], "plan does not accept --expires"],
    [["create", "--name", "--plan", "free"], "Option '--name' argument is ambiguous"],
  ])("%j", async (args, problem) => {
    const { exitCode, stdout, stderr } = await runInProcess("keys", keys, ["--persist-to", state, ...args]);
    expect(exitCode).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr).toContain(problem);
  });

  it("does not print a key that is given instead of an id", async () => {
    const { key } = await newKey();
    const { exitCode, stderr } = await run("revoke", key);
    expect([exitCode, stderr.includes(key.slice(4, 20))]).toEqual([1, false]);
    expect(stderr).toContain("never the key itself");
    for (const args of [
      ["list", key],
      ["revoke", ID, key],
      ["list", `--${key}`],
    ]) {
      const { exitCode: code, stderr: line } = await run(...args);
      expect([code, line.includes(key.slice(4, 20))]).toEqual([1, false]);
      expect(line).toContain("pet_…");
    }
  });

  it("names the command that creates a missing database, and does not create it", async () => {
    for (const nowhere of [`${state}-missing`, dirname(state), import.meta.filename]) {
      const { exitCode, stderr } = await npmRunKeys("list", "--persist-to", nowhere);
      expect([exitCode, stderr]).toEqual([
        1,
        `there is no database in ${nowhere}: create it with npm start -- --persist-to ${nowhere}\n`,
      ]);
    }
    expect(existsSync(`${state}-missing`) || existsSync(join(dirname(state), "v3"))).toBe(false);
  });

  it("ends the process of a command whose local server may still run", async () => {
    const args = ["--persist-to", import.meta.filename];
    const { exitCode, stdout, stderr } = await runScript("scripts/migrate.ts", args);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^migrate failed: [^\n]+\n$/);
  });

  it("quotes a folder with a space in the command", async () => {
    const { stderr } = await runInProcess("keys", keys, ["list", "--persist-to", `${state} two`]);
    expect(stderr).toContain(`npm start -- --persist-to '${state} two'\n`);
  });
});
