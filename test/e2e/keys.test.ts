// The command line that makes keys: what it prints, for people and for programs, and how it refuses.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { applyMigrations, type OpenDatabase, openDatabase } from "../../scripts/cloudflare/database.ts";
import { keys } from "../../scripts/keys.ts";
import { createKey } from "../../src/keys/admin.ts";
import { findKeyById } from "../../src/keys/store.ts";
import { emptyState, keys as npmRunKeys, runScript } from "../support/e2e/petstore.ts";
import { runHere } from "../support/e2e/run-here.ts";

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

/** Runs the command on this file's own database. */
function run(...words: string[]) {
  return runHere("keys", keys, [...words, "--persist-to", state]);
}

describe("npm run keys -- create", () => {
  it("prints the key once, and list never", async () => {
    const jo = ["create", "--name", "Jo's shop", "--plan", "free", "--persist-to", state];
    const { stdout } = await npmRunKeys(...jo);
    const [secret = "", ...rest] = stdout.split("\n");
    expect(secret).toMatch(/^pet_[0-9A-Za-z]{38}$/);
    expect(rest.join("\n")).toMatch(
      /It is key_\w{12} \("Jo's shop"\), on the free plan: 60 requests a minute, 1000 a day\./,
    );

    const table = (await run("list")).stdout;
    const row = table.split("\n").find((line) => line.includes("Jo's shop"));
    expect(row).toMatch(
      /^key_\w{12} {2}Jo's shop +free +60 +1000 +\w{4} +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ +never +active$/,
    );
    expect(row).toContain(secret.slice(-4));
    expect(table).not.toContain(secret.slice(0, 20));
  });

  it("with --json, prints exactly one JSON value, and so does list", async () => {
    const words = [
      "--name",
      "agreed",
      "--plan",
      "enterprise",
      "--per-minute",
      "7",
      "--per-day",
      "1000000000",
    ];
    const expires = ["--expires", "2099-12-31T23:59:59+01:00"];
    const created = await npmRunKeys("create", ...words, ...expires, "--json", "--persist-to", state);
    const { id, key, ...rest } = JSON.parse(created.stdout);
    expect(rest).toEqual({ name: "agreed", plan: "enterprise", perMinute: 7, perDay: 1_000_000_000 });
    expect(created.stderr).toBe("");

    const listed = await npmRunKeys("list", "--json", "--persist-to", state);
    const found = JSON.parse(listed.stdout).find((record: { id: string }) => record.id === id);
    expect(found).toEqual({
      id,
      name: "agreed",
      plan: "enterprise",
      perMinute: 7,
      perDay: 1_000_000_000,
      lastFour: key.slice(-4),
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      expiresAt: "2099-12-31T22:59:59Z",
      revokedAt: null,
      state: "active",
    });
    expect(listed.stdout).not.toContain(key);
  });
});

/** A new key, made without the command: that takes a second. `lifetimeMs` may be over. */
async function newKey(lifetimeMs?: number) {
  const nowMs = Date.now() - 60_000;
  const expiresAtMs = lifetimeMs === undefined ? null : Date.now() + lifetimeMs;
  const { key, secret } = await createKey(
    opened.database,
    { name: "Ann's shop", plan: "free", expiresAtMs },
    nowMs,
  );
  return { id: key.id, key: secret, expiresAtMs };
}

/** The line of the table that shows a key. */
async function rowOf(id: string): Promise<string | undefined> {
  return (await run("list")).stdout.split("\n").find((line) => line.startsWith(id));
}

describe("npm run keys -- revoke", () => {
  it("ends a key for good, and says so", async () => {
    const { id } = await newKey();
    const { exitCode, stdout } = await run("revoke", id);
    expect([exitCode, stdout]).toEqual([
      0,
      `${id} ("Ann's shop") is revoked, for good. Within 30 s it is refused everywhere.\n`,
    ]);
    expect(await rowOf(id)).toMatch(/ revoked$/);
    for (const words of [["revoke"], ["rotate"], ["plan", "pro"]]) {
      const [command = "", ...rest] = words;
      const again = await run(command, id, ...rest);
      expect([again.exitCode, again.stdout, again.stderr]).toEqual([
        1,
        "",
        `${id} is revoked already, for good: make another key with npm run keys -- create\n`,
      ]);
    }
  });

  it("with --json, prints the key as list does", async () => {
    const { id } = await newKey();
    const { stdout } = await run("revoke", id, "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      id,
      state: "revoked",
      revokedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
    });
    const listed = JSON.parse((await run("list", "--json")).stdout);
    expect(listed).toContainEqual(JSON.parse(stdout));
  });
});

describe("npm run keys -- rotate", () => {
  it("prints a new key for the same id, once, and until when the old one is good", async () => {
    const { id, key } = await newKey();
    const { stdout } = await run("rotate", id, "--grace", "3600");
    const [secret = "", ...rest] = stdout.split("\n");
    expect(secret).toMatch(/^pet_[0-9A-Za-z]{38}$/);
    expect(secret).not.toBe(key);
    expect(rest.join("\n")).toMatch(
      /It is the new one of key_\w{12} \("Ann's shop"\), on the free plan.*\nThe old one stays good until \d{4}-.*Z\.\n$/,
    );
    expect((await findKeyById(opened.database, id))?.lastFour).toBe(secret.slice(-4));
  });

  it("does not promise a grace beyond the end of the key", async () => {
    const { id, expiresAtMs } = await newKey(86_400_000);
    const end = new Date(expiresAtMs ?? 0).toISOString().replace(/\.\d+Z/, "Z");
    expect((await run("rotate", id, "--grace", "2592000")).stdout).toContain(
      `The old one stays good until ${end}.`,
    );
  });

  it("promises nothing of a grace that is over before every isolate has heard of it", async () => {
    const { id } = await newKey();
    expect((await run("rotate", id, "--grace", "29")).stdout).toContain(
      "The old one is refused everywhere within 30 s.",
    );
  });

  it("with --json, prints exactly one JSON value", async () => {
    const { id, key } = await newKey();
    const { stdout, stderr } = await run("rotate", id, "--json");
    const { key: secret, ...rest } = JSON.parse(stdout);
    expect(rest).toEqual({ id, name: "Ann's shop", plan: "free", perMinute: 60, perDay: 1_000 });
    expect(secret).toMatch(/^pet_[0-9A-Za-z]{38}$/);
    expect(secret).not.toBe(key);
    expect(stderr).toBe("");
  });
});

describe("npm run keys -- plan", () => {
  it("puts a key on another plan, to enterprise and back", async () => {
    const { id } = await newKey();
    const agreed = ["enterprise", "--per-minute", "7", "--per-day", "1000000000"];
    const { stdout } = await run("plan", id, ...agreed);
    expect(stdout).toContain(
      `${id} ("Ann's shop") is on the enterprise plan: 7 requests a minute, 1000000000 a day. Within 30 s`,
    );
    const back = await run("plan", id, "pro", "--json");
    expect(JSON.parse(back.stdout)).toMatchObject({ id, plan: "pro", perMinute: 300, perDay: 10_000 });
  });
});

it("a key that has expired can be revoked, and no longer changed", async () => {
  const { id } = await newKey(-1);
  expect(await rowOf(id)).toMatch(/ expired$/);
  const refusal = `${id} has expired, for good: make another key with npm run keys -- create\n`;
  expect((await run("plan", id, "pro")).stderr).toBe(refusal);
  expect((await run("rotate", id)).stderr).toBe(refusal);
  expect((await run("revoke", id)).exitCode).toBe(0);
});

describe("a wrong use ends with 1 and one line that says what to do", () => {
  const create = (...words: string[]) => ["create", "--name", "x", ...words];
  const agreed = (perMinute: string, perDay: string) => [
    "enterprise",
    "--per-minute",
    perMinute,
    "--per-day",
    perDay,
  ];
  const enterprise = (perMinute: string, perDay: string) => create("--plan", ...agreed(perMinute, perDay));

  it.each([
    [[], "the command must be one of create, list, revoke, rotate, plan"],
    [["frobnicate"], "the command must be one of create, list, revoke, rotate, plan"],
    [["delete", "1"], "the command must be one of create, list, revoke, rotate, plan"],
    [["list", "all"], '"all" is too much, or the -- after "npm run keys" is missing'],
    [["list", "--name", "x"], "--name does not belong to list"],
    [["create", "--plan", "free"], "--name is missing"],
    [["create", "--name=", "--plan", "free"], "--name must be 1 to 255 characters"],
    [["create", "--name", "x".repeat(256), "--plan", "free"], "--name must be 1 to 255 characters"],
    [create(), "--plan must be one of free, pro, business, enterprise"],
    [create("--plan", "gold"), "--plan must be one of"],
    [create("--plan", "toString"), "--plan must be one of"],
    [create("--plan", "enterprise"), "enterprise needs --per-minute and --per-day"],
    [create("--plan", "enterprise", "--per-day", "5"), "enterprise needs --per-minute and --per-day"],
    [create("--plan", "free", "--per-day", "5"), "--per-minute and --per-day belong to enterprise"],
    [enterprise("0", "5"), "--per-minute must be a number from 1 to 1000000000"],
    [enterprise("5", "1000000001"), "--per-day must be a number from 1 to 1000000000"],
    [enterprise("1e3", "5"), "--per-minute must be a number"],
    [enterprise("5", "9".repeat(400)), "--per-day must be a number"],
    [create("--plan", "free", "--expires", "2020-01-01"), "--expires must lie ahead"],
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
    [["list", "--remote"], "name different databases: give one of them"],
    [["list", "--preview", "staging"], "name different databases: give one of them"],
    [["revoke"], "revoke needs the ID of a key: see npm run keys -- list"],
    [["revoke", "key_000000000000"], "there is no key key_000000000000: see npm run keys -- list"],
    [["rotate", "key_000000000000"], "there is no key key_000000000000"],
    [["plan", "key_000000000000", "pro"], "there is no key key_000000000000"],
    [["revoke", "demo"], "the ID must be a key's public id, such as key_0123456789Ab, never the key itself"],
    [["revoke", "key_' OR 1=1--"], "the ID must be a key's public id"],
    [["revoke", "key_000000000000", "key_000000000001"], '"key_000000000001" is too much'],
    [["revoke", "key_000000000000", "--grace", "5"], "--grace does not belong to revoke"],
    [["rotate", "key_000000000000", "--grace", "-1"], "Option '--grace' argument is ambiguous"],
    [["rotate", "key_000000000000", "--grace=-1"], "--grace must be a number of seconds from 0 to 2592000"],
    [["rotate", "key_000000000000", "--grace", "1h"], "--grace must be a number of seconds"],
    [["rotate", "key_000000000000", "--grace", "2592001"], "--grace must be a number of seconds"],
    [["plan", "key_000000000000"], "the plan must be one of free, pro, business, enterprise"],
    [["plan", "key_000000000000", "gold"], "the plan must be one of"],
    [["plan", "key_000000000000", "enterprise"], "enterprise needs --per-minute and --per-day"],
    [["plan", "key_000000000000", ...agreed("0", "5")], "--per-minute must be a number from 1 to 1000000000"],
    [["plan", "key_000000000000", ...agreed("5", "1000000001")], "--per-day must be a number from 1 to"],
    [
      ["plan", "key_000000000000", "pro", "--per-day", "5"],
      "belong to enterprise: the limits of pro are fixed",
    ],
    [["plan", "key_000000000000", "pro", "--expires", "2099-01-01"], "--expires does not belong to plan"],
    [["create", "--name", "--plan", "free"], "Option '--name' argument is ambiguous"],
  ])("%j", async (words, problem) => {
    const { exitCode, stdout, stderr } = await runHere("keys", keys, ["--persist-to", state, ...words]);
    expect(exitCode).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr).toContain(problem);
  });

  it("a key instead of its id: does not repeat it", async () => {
    const { key } = await newKey();
    const { exitCode, stderr } = await run("revoke", key);
    expect([exitCode, stderr.includes(key.slice(4, 20))]).toEqual([1, false]);
    expect(stderr).toContain("never the key itself");
    for (const words of [
      ["list", key],
      ["revoke", "key_000000000000", key],
      ["list", `--${key}`],
    ]) {
      const { exitCode: code, stderr: line } = await run(...words);
      expect([code, line.includes(key.slice(4, 20))]).toEqual([1, false]);
      expect(line).toContain("pet_…");
    }
  });

  it("no database yet: says how to get one, and makes none", async () => {
    for (const nowhere of [`${state}-missing`, dirname(state), import.meta.filename]) {
      const { exitCode, stderr } = await npmRunKeys("list", "--persist-to", nowhere);
      expect([exitCode, stderr]).toEqual([
        1,
        `there is no database in ${nowhere} yet: run npm start -- --persist-to ${nowhere} once, which makes it\n`,
      ]);
    }
    expect(existsSync(`${state}-missing`) || existsSync(join(dirname(state), "v3"))).toBe(false);
  });

  it("a path that is no folder: ends all the same, though a server may have been left running", async () => {
    const { exitCode, stdout, stderr } = await runScript("scripts/migrate.ts", [
      "--persist-to",
      import.meta.filename,
    ]);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^migrate failed: [^\n]+\n$/);
  });

  it("quotes a folder with a space, so that the line can be pasted", async () => {
    const { stderr } = await runHere("keys", keys, ["list", "--persist-to", `${state} two`]);
    expect(stderr).toContain(`npm start -- --persist-to '${state} two' once`);
  });
});
