import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { PlatformProxy } from "wrangler";
import { applyMigrations, type OpenDatabase, openDatabase } from "../../scripts/cloudflare/database.ts";
import keys from "../../scripts/keys.ts";
import { createKey, renameKey } from "../../src/keys/admin.ts";
import { findKeyById } from "../../src/keys/records.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { emptyState, keys as npmRunKeys, runProcess, runScript } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

const SECRET = /^pet_[0-9A-Za-z]{38}$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

// The real local runtime, but one process for each folder: starting one takes longer than all else that a command does.
const proxies = vi.hoisted(() => new Map<unknown, Promise<PlatformProxy>>());
vi.mock("wrangler", async (importOriginal) => {
  const wrangler = await importOriginal<typeof import("wrangler")>();
  const getPlatformProxy: typeof wrangler.getPlatformProxy = async (options) => {
    const folder = JSON.stringify(options?.persist);
    const proxy = proxies.get(folder) ?? wrangler.getPlatformProxy(options);
    proxies.set(folder, proxy);
    return { ...(await proxy), dispose: async () => {} } as never;
  };
  return { ...wrangler, getPlatformProxy };
});

let state: string;
let remove: () => Promise<void>;
let opened: OpenDatabase;

beforeAll(async () => {
  ({ state, remove } = await emptyState());
  await applyMigrations({ kind: "local", state });
  opened = await openDatabase({ kind: "local", state });
});

afterAll(async () => {
  for (const proxy of proxies.values()) await (await proxy).dispose();
  await remove();
});

/** Runs the command on this file's database, where nobody can answer. */
function run(...args: string[]) {
  return runCommandInProcess(keys, [...args, "--persist-to", state]);
}

/** Runs the command in a terminal where somebody types `answer`. */
function runInTerminal(answer: string, ...args: string[]) {
  return runCommandInProcess(keys, [...args, "--persist-to", state], { stdin: answer, isTTY: true });
}

/** Creates a key without the command. With a negative lifetime it has expired. */
async function newKey(lifetimeMs?: number, name = "Ann's shop") {
  const expiresAtMs = lifetimeMs === undefined ? null : Date.now() + lifetimeMs;
  const newKey = { name, plan: "free", expiresAtMs } as const;
  const operator = { by: "a test", nowMs: Date.now() - 60_000 };
  const { key, secret } = await createKey(opened.database, newKey, operator);
  return { id: key.id, key: secret, lastFour: key.lastFour, expiresAtMs };
}

/** Records bans of a key that began now. */
async function recordBans(id: string, count: number): Promise<void> {
  const insert = opened.database.prepare(
    "INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by) VALUES (?1, ?2, 'banned', ?3, 'a test')",
  );
  const until = new Date(Date.now() + 600_000).toISOString().replace(/\.\d+/, "");
  for (let ban = 0; ban < count; ban += 1) await insert.bind(id, Date.now(), until).run();
}

/** The row of a key in the table of `list`. */
async function rowOf(id: string): Promise<string | undefined> {
  return (await run("list", "--search", id)).stdout.split("\n").find((line) => line.startsWith(id));
}

/** The recorded changes of a key, as `CHANGE: FROM → TO (BY)`, the latest first. */
async function changesOf(id: string): Promise<string[]> {
  const { stdout } = await run("log", id, "--json");
  const changes: Record<string, string>[] = JSON.parse(stdout);
  return changes.map(({ change, from, to, by }) => `${change}: ${from} → ${to} (${by})`);
}

describe("npm run keys -- create", () => {
  it("prints only the key on standard output, which list does not show", async () => {
    const args = ["--name", "Jo's shop", "--plan", "free", "--persist-to", state];
    const { stdout, stderr } = await npmRunKeys("create", ...args);
    const secret = stdout.trim();
    expect(secret).toMatch(SECRET);
    expect(stderr).toMatch(
      /Created key_\w{12} \("Jo's shop"\): free plan, 60 requests per minute, 1000 per day, never expires\./,
    );

    const table = (await run("list")).stdout;
    const row = table.split("\n").find((line) => line.includes("Jo's shop"));
    expect(row).toMatch(/^key_\w{12} {2}Jo's shop +free +60 +1000 +\w{4} +\d{4}-\d\d-\d\d +never +active$/);
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
      graceUntil: null,
      bannedUntil: null,
      bansInLast30Days: 0,
      state: "active",
      states: ["active"],
    });
    expect(listed.stdout).not.toContain(key);
  });

  it("creates more keys than one statement takes, each on a line, with numbered names", async () => {
    const args = ["--name", "many", "--plan", "free", "--count", "501", "--by", "Ann"];
    const { stdout } = await run("create", ...args, "--json-lines");
    const created: Record<string, string>[] = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(created.map(({ name }) => name)).toEqual(
      Array.from({ length: 501 }, (_, index) => `many ${index + 1}`),
    );
    expect(new Set(created.map(({ key }) => key)).size).toBe(501);
    expect(created.every(({ key = "" }) => SECRET.test(key))).toBe(true);
    expect(await changesOf(created[500]?.id ?? "")).toEqual(["created: null → free (Ann)"]);
  });

  it("warns of a name that is shown otherwise", async () => {
    const { stderr } = await run("create", "--name", "Jo\u202e", "--plan", "free");
    expect(stderr).toContain('warning: some characters of the name are not printable: "?" is shown\n');
  });

  it("warns of limits that make no sense, and of a name that exists", async () => {
    const { id } = await newKey(undefined, "Twin & Sons");
    const limits = ["--per-minute", "5000", "--per-day", "10"];
    const args = ["--name", "Twin & Sons", "--plan", "enterprise", ...limits];
    const { exitCode, stderr } = await run("create", ...args);
    expect(exitCode).toBe(0);
    expect(stderr).toContain("warning: the day's limit (10) is smaller than the minute's (5000)\n");
    expect(stderr).toContain(`warning: another key has this name: ${id} ("Twin & Sons", ending in `);
    const other = await run("create", "--name", "Twin", "--plan", "free");
    expect(other.stderr).not.toContain("warning");
  });
});

describe("npm run keys -- list", () => {
  it.each([
    ["active", ["fresh", "expiring", "in grace", "unbanned"]],
    ["banned", ["banned"]],
    ["expiring", ["expiring"]],
    ["in-grace", ["in grace"]],
    ["expired", ["expired"]],
    ["revoked", ["revoked"]],
  ])("--state %s", async (wanted, names) => {
    const name = `of ${wanted}`;
    const days = (count: number) => count * 86_400_000;
    const ids = {
      fresh: (await newKey(days(31), name)).id,
      expiring: (await newKey(days(29), name)).id,
      "in grace": (await newKey(undefined, name)).id,
      banned: (await newKey(undefined, name)).id,
      unbanned: (await newKey(undefined, name)).id,
      expired: (await newKey(-1, name)).id,
      revoked: (await newKey(-1, name)).id,
    };
    for (const id of [ids.banned, ids.unbanned]) await recordBans(id, 1);
    await run("unban", ids.unbanned);
    await run("rotate", ids["in grace"], "--grace", "60", "--yes");
    await run("rotate", ids.fresh, "--yes");
    await run("revoke", ids.revoked, "--yes");
    const { stdout } = await run("list", "--search", name.toUpperCase(), "--state", wanted, "--json");
    const found: { id: string }[] = JSON.parse(stdout);
    expect(found.map(({ id }) => id).sort()).toEqual(
      names.map((each) => ids[each as keyof typeof ids]).sort(),
    );
  });

  it("finds a key by a part of its id and by the end of its secret, and filters by plan", async () => {
    const { id, lastFour } = await newKey(undefined, "to be found");
    const find = async (...args: string[]) => {
      const { stdout } = await run("list", ...args, "--json-lines");
      return stdout.includes(`"${id}"`);
    };
    expect(await find("--search", id.slice(6, 14))).toBe(true);
    expect(await find("--search", lastFour)).toBe(true);
    expect(await find("--search", lastFour, "--plan", "free")).toBe(true);
    expect(await find("--search", lastFour, "--plan", "pro")).toBe(false);
    expect(await find("--search", "to be lost")).toBe(false);
  });

  it("shows pages of the table, in the order that was asked for, and keeps wide names in their column", async () => {
    for (const name of ["日本語 page", "a page", "Zoë page"]) await newKey(undefined, name);
    const page = async (number: number) =>
      run("list", "--search", " page", "--sort", "name", "--limit", "2", "--page", `${number}`);
    const first = await page(1);
    expect(first.stdout.match(/(a|Zoë|日本語) page/g)).toEqual(["a page", "Zoë page"]);
    expect(first.stderr).toBe("Keys 1 to 2 of 3; --page 2 shows the next.\n");
    const second = await page(2);
    // Each of the three characters takes two columns.
    expect(second.stdout).toMatch(/^ID {16}NAME {9}PLAN .*\nkey_\w{12} {2}日本語 page {2}free /);
    expect(second.stderr).toBe("Keys 3 to 3 of 3.\n");
    const json = await run("list", "--search", " page", "--page", "2", "--json");
    expect(JSON.parse(json.stdout)).toEqual([]);
    expect(await page(3)).toEqual({ exitCode: 0, stdout: "", stderr: "There is no page 3.\n" });
  });

  it("shows that a key is banned again and again", async () => {
    const [once, often] = [await newKey(), await newKey()];
    await recordBans(once.id, 1);
    await recordBans(often.id, 3);
    expect(await rowOf(once.id)).toMatch(/ banned until \d{4}-\S+Z +1$/);
    expect(await rowOf(often.id)).toMatch(/ banned until \S+Z +3 TIMES$/);
    const { stdout } = await run("list", "--sort", "bans", "--limit", "1", "--json");
    expect(JSON.parse(stdout)).toMatchObject([{ id: often.id, bansInLast30Days: 3 }]);
  });
});

describe("npm run keys -- revoke", () => {
  it("revokes a key permanently, after saying whose it is", async () => {
    const { id, lastFour } = await newKey();
    const refused = await run("revoke", id);
    expect([refused.exitCode, refused.stdout]).toEqual([2, ""]);
    expect(refused.stderr).toMatch(/"--yes"|add --yes/);
    const declined = await runInTerminal("n\n", "revoke", id);
    expect([declined.exitCode, await rowOf(id)]).toEqual([1, expect.stringMatching(/ active$/)]);
    expect((await runInTerminal("", "revoke", id)).exitCode).toBe(1);

    const { exitCode, stdout, stderr } = await runInTerminal("y\n", "revoke", id);
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining(`Revoked ${id} ("Ann's shop")`)]);
    expect(stderr).toMatch(
      new RegExp(
        `This ends ${id} \\("Ann's shop", ending in ${lastFour}, created \\d{4}-\\d\\d-\\d\\d\\) for good`,
      ),
    );
    expect(await rowOf(id)).toMatch(/ revoked$/);
    for (const [command, ...args] of [
      ["revoke", id, "--yes"],
      ["rotate", id, "--yes"],
      ["plan", id, "pro"],
      ["rename", id, "other"],
      ["expire", id, "never"],
      ["unban", id],
    ] as const) {
      const failed = await run(command, ...args);
      expect([failed.exitCode, failed.stdout]).toEqual([1, ""]);
      expect(failed.stderr).toContain(`error: ${id} is revoked, for good: nothing about it can be changed\n`);
    }
    expect(await changesOf(id)).toHaveLength(2);
  });

  it("prints the key like list with --json", async () => {
    const { id } = await newKey();
    const revoked = JSON.parse((await run("revoke", id, "--yes", "--json")).stdout);
    expect(revoked).toMatchObject({ id, state: "revoked", revokedAt: expect.stringMatching(TIME) });
    expect(JSON.parse((await run("list", "--json")).stdout)).toContainEqual(revoked);
  });
});

describe("npm run keys -- rotate", () => {
  it("prints a new key for the same id, and the end of the grace", async () => {
    const { id, key } = await newKey();
    const { stdout, stderr } = await run("rotate", id, "--grace", "3600", "--yes");
    const secret = stdout.trim();
    expect(secret).toMatch(SECRET);
    expect(secret).not.toBe(key);
    expect(stderr).toMatch(/The current key of .* stops working everywhere at \d{4}-\S+Z\.\n/);
    expect(stderr).toMatch(/Rotated key_\w{12} \("Ann's shop"\): free plan/);
    expect((await findKeyById(opened.database, id, Date.now()))?.lastFour).toBe(secret.slice(-4));
  });

  it("announces no grace beyond the key's expiry", async () => {
    const { id, expiresAtMs } = await newKey(86_400_000);
    const end = new Date(expiresAtMs ?? 0).toISOString().replace(/\.\d+Z/, "Z");
    const { stderr } = await run("rotate", id, "--grace", "2592000", "--yes");
    expect(stderr).toContain(`stops working everywhere at ${end}.`);
  });

  it("announces no grace shorter than the time that a rotation takes to reach every isolate", async () => {
    const { id } = await newKey();
    const { stderr } = await run("rotate", id, "--grace", "29", "--yes");
    expect(stderr).toContain("stops working everywhere within 30 seconds.");
  });

  it("prints exactly one JSON value with --json", async () => {
    const { id, key } = await newKey();
    const { stdout } = await run("rotate", id, "--json", "--yes");
    const { key: secret, ...rest } = JSON.parse(stdout);
    expect(rest).toEqual({ id, name: "Ann's shop", plan: "free", perMinute: 60, perDay: 1_000 });
    expect(secret).toMatch(SECRET);
    expect(secret).not.toBe(key);
  });
});

it("every change is recorded, with the values before and after, and who made it", async () => {
  const { id, lastFour } = await newKey();
  await run("rename", id, "Ann & Jo", "--by", "Jo");
  await run("plan", id, "enterprise", "--per-minute", "7", "--per-day", "1000000000", "--by", "Jo");
  const { stdout } = await run("plan", id, "pro", "--by", "Jo", "--json");
  expect(JSON.parse(stdout)).toMatchObject({ name: "Ann & Jo", plan: "pro", perMinute: 300, perDay: 10_000 });
  await run("expire", id, "2099-01-31", "--by", "Jo");
  await run("expire", id, "never", "--by", "Jo");
  const rotated = (await run("rotate", id, "--by", "Jo", "--yes")).stdout.trim();
  await recordBans(id, 1);
  await run("unban", id, "--by", "Jo");
  await run("unban", id, "--by", "Ann");
  await run("revoke", id, "--yes");
  const me = userInfo().username;
  expect((await changesOf(id)).reverse()).toEqual([
    "created: null → free (a test)",
    "renamed: Ann's shop → Ann & Jo (Jo)",
    "plan: free → enterprise 7/min 1000000000/day (Jo)",
    "plan: enterprise 7/min 1000000000/day → pro (Jo)",
    "expiry: never → 2099-01-31T00:00:00Z (Jo)",
    "expiry: 2099-01-31T00:00:00Z → never (Jo)",
    `rotated: ${lastFour} → ${rotated.slice(-4)} (Jo)`,
    expect.stringMatching(/^banned: null → \d{4}-\S+Z \(a test\)$/),
    expect.stringMatching(/^unbanned: \d{4}-\S+Z → null \(Jo\)$/),
    "unbanned: null → null (Ann)",
    `revoked: null → null (${me})`,
  ]);
  const log = await run("log");
  expect(log.stdout).toMatch(new RegExp(`${id} +Ann & Jo +rotated +${lastFour} +${rotated.slice(-4)} +Jo\n`));
  expect(log.stdout).not.toContain(rotated);
});

describe("an expired key", () => {
  it("can be revoked or prolonged, but not rotated or moved to another plan", async () => {
    const { id } = await newKey(-1);
    expect(await rowOf(id)).toMatch(/ expired$/);
    const message = `error: ${id} has expired: npm run keys -- expire ${id} DATE moves its end\n`;
    for (const args of [
      ["plan", id, "pro"],
      ["rotate", id, "--yes"],
      ["unban", id],
    ]) {
      const { exitCode, stderr } = await run(...args);
      expect([exitCode, stderr]).toEqual([1, expect.stringContaining(message)]);
    }
    expect((await run("expire", id, "2099-01-31")).stdout).toContain("expires 2099-01-31T00:00:00Z.");
    expect(await rowOf(id)).toMatch(/ 2099-01-31 +active$/);
    expect((await run("revoke", (await newKey(-1)).id, "--yes")).exitCode).toBe(0);
  });
});

describe("npm run keys -- show", () => {
  it("shows all about a key, and why its counts are unknown", async () => {
    const { id } = await newKey();
    await run("rotate", id, "--grace", "60", "--yes");
    await renameKey(opened.database, id, "Ann\u202e\nshop", { by: "a test", nowMs: Date.now() });
    const { stdout } = await run("show", id);
    // Characters that could deceive the reader of a terminal.
    expect(stdout).toMatch(new RegExp(`^${id} {2}Ann\\?\\?shop\n`));
    expect(stdout).toMatch(/\nState +active, in-grace\n/);
    expect(stdout).toMatch(/\nOld keys +valid until \d{4}-\S+Z\n/);
    expect(stdout).toContain(
      `Counts: unknown: the local service counts, and it does not run: npm start -- --persist-to ${state}`,
    );
    expect(stdout).toMatch(/ +renamed +Ann's shop +Ann\?\?shop +a test\n/);
    const details = JSON.parse((await run("show", id, "--json")).stdout);
    expect(details).toMatchObject({ id, state: "active", windows: null, days: null });
    expect(details).toMatchObject({ graces: [expect.stringMatching(TIME)], changes: { length: 3 } });
  });
});

describe("with a running service", () => {
  const petstore = sharedPetstore();

  it("show has the counts of that service, without a request to it", async () => {
    const { id, key } = await petstore.newKey("free");
    const show = (...args: string[]) =>
      runCommandInProcess(keys, ["show", id, "--persist-to", petstore.state, ...args]);
    await petstore.call("/v1/pets", key);
    const { windows, days } = JSON.parse((await show("--json")).stdout);
    const usage = (await (await petstore.call("/v1/usage", key)).json()) as UsageBody;
    expect(windows).toEqual({ minute: usage.minute, day: usage.day });
    expect(windows.day).toMatchObject({ limit: 1_000, used: 1 });
    expect(days).toEqual(usage.days.slice(-7));
    expect((await show()).stdout).toMatch(/\n {2}day +1 +1,000 +999 +00:00:00Z, in [^\n]+\n/);
  });
});

describe("wrong usage ends with exit code 2 and one line", () => {
  const ID = "key_000000000000";
  const create = (...args: string[]) => ["create", "--name", "x", ...args];
  const limits = (perMinute: string, perDay: string) => ["--per-minute", perMinute, "--per-day", perDay];
  const enterprise = (perMinute: string, perDay: string) =>
    create("--plan", "enterprise", ...limits(perMinute, perDay));
  const LIMIT = "It must be an integer from 1 to 1000000000";
  const DATE = "It must be a UTC date such as 2027-01-31";

  it.each([
    [["lst"], "unknown command 'lst' (Did you mean list?)"],
    [["list", "all"], 'got 1: all (is "--" missing before the options?); see npm run keys -- list --help'],
    [["list", "--name", "x"], "unknown option '--name'"],
    [["list", "--serch", "x"], "(Did you mean --search?)"],
    [["list", "--state", "gone"], "Allowed choices are active, banned, expiring, in-grace, expired, revoked"],
    [["list", "--page", "0"], "It must be an integer from 1 to 100000"],
    [["list", "--json", "--json-lines"], "cannot be used with option '--json'"],
    [["create", "--plan", "free"], "required option '--name <name>' not specified"],
    [["create", "--name=", "--plan", "free"], "It must be 1 to 255 characters"],
    [["create", "--name", "x".repeat(256), "--plan", "free"], "It must be 1 to 255 characters"],
    [["create", "--name", "--plan", "free"], "It must be a name, and looks like an option"],
    [create(), "required option '--plan <plan>' not specified"],
    [create("--plan", "toString"), "Allowed choices are free, pro, business, enterprise"],
    [create("--plan", "enterprise"), "enterprise needs --per-minute and --per-day"],
    [create("--plan", "enterprise", "--per-day", "5"), "enterprise needs --per-minute and --per-day"],
    [create("--plan", "free", "--per-day", "5"), "--per-minute and --per-day are for enterprise only"],
    [enterprise("0", "5"), LIMIT],
    [enterprise("5", "1000000001"), LIMIT],
    [enterprise("1e3", "5"), LIMIT],
    [enterprise("5", "9".repeat(400)), LIMIT],
    [create("--plan", "free", "--count", "0"), "It must be an integer from 1 to 100000"],
    [create("--plan", "free", "--expires", "2020-01-01"), "It must be in the future"],
    [create("--plan", "free", "--expires", "2027-02-31"), DATE],
    [create("--plan", "free", "--expires", "2027-01-31T25:00:00Z"), DATE],
    [create("--plan", "free", "--expires", "2027-01-31T12:00:00"), DATE],
    [create("--plan", "free", "--expires", "tomorrow"), DATE],
    [create("--plan", "free", "--expires", "2027-01-31T12:00Z"), DATE],
    [create("--plan", "free", "--expires", "2027-01-31T24:00:00Z"), DATE],
    [create("--plan", "free", "--expires", "9999-12-31T23:59:59-23:59"), DATE],
    [create("--plan", "free", "--by", ""), "It must be 1 to 100 characters"],
    [["rename", ID, `pet_${"x".repeat(38)}`], "It must not contain an API key"],
    [create("--plan", "free", "--by", `pet_${"x".repeat(38)}`), "and no API key"],
    [["expire", ID, "nevr"], "2027-01-31T12:00:00Z, or never"],
    [["list", "--search", "--json"], "It looks like an option"],
    [["list", "--persist-to="], "It must name a folder"],
    [["list", "--remote"], "cannot be used with option"],
    [["list", "--preview", "staging"], "cannot be used with option"],
    [["revoke"], "missing required argument 'id'"],
    [
      ["revoke", "demo"],
      "It must be a public ID such as key_0123456789Ab, as npm run keys -- list shows it, never the key itself",
    ],
    [["revoke", "key_' OR 1=1--"], "It must be a public ID"],
    [["revoke", ID, "key_000000000001"], "too many arguments for 'revoke'"],
    [["revoke", ID, "--grace", "5"], "unknown option '--grace'"],
    [["rotate", ID, "--grace", "-5"], "'-5' is invalid. It must be an integer from 0 to 2592000"],
    [["rotate", ID, "--grace", "1h"], "It must be an integer from 0 to 2592000"],
    [["rotate", ID, "--grace", "2592001"], "It must be an integer from 0 to 2592000"],
    [["rename", ID], "missing required argument 'name'"],
    [["expire", ID, "2020-01-01"], "It must be in the future"],
    [["plan", ID], "missing required argument 'plan'"],
    [["plan", ID, "gold"], "Allowed choices are free, pro, business, enterprise"],
    [["plan", ID, "enterprise"], "enterprise needs --per-minute and --per-day"],
    [["plan", ID, "pro", "--per-day", "5"], "are for enterprise only: pro has fixed limits"],
    [["log", "--limit", "none"], "It must be an integer from 1 to 100000"],
  ])("%j", async (args, problem) => {
    const { exitCode, stdout, stderr } = await run(...args);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^error: [^\n]+\n$/);
    expect(stderr).toContain(problem);
  });

  it("or the help, without a command", async () => {
    const { exitCode, stdout, stderr } = await runCommandInProcess(keys, []);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^Usage: npm run keys -- /);
  });

  it.each([
    [["list"], { npm_config_remote: "true" }, "npm run keys -- list --remote"],
    [["rotate", ID, "60"], { npm_config_grace: "true" }, `npm run keys -- rotate ${ID} --grace <seconds>`],
    [["rotate", "60", ID], { npm_config_grace: "true" }, "npm run keys -- rotate <id> --grace <seconds>"],
    [["list"], { npm_config_remtoe: "true" }, "npm run keys -- list --remote"],
    [["rotate", ID], { npm_config_grace: "60" }, `npm run keys -- rotate ${ID} --grace 60`],
    [["create", "Jo"], { npm_config_name: "true" }, "npm run keys -- create --name <name> --plan <plan>"],
    [["log", "5"], { npm_config_limit: "true" }, "npm run keys -- log --limit <n>"],
  ])("without -- before the options: %j %j", async (args, env, line) => {
    const { exitCode, stderr } = await runCommandInProcess(keys, args, { env });
    expect([exitCode, stderr]).toEqual([2, expect.stringMatching(/^error: npm took [^\n]+\n$/)]);
    expect(stderr).toContain(`type ${line}\n`);
  });
});

it.each([
  ["rename key_000000000000 --by=Jo", "npm run keys -- rename key_000000000000 Jo --by <name>"],
  ["list --plan free", "npm run keys -- list --plan <plan>"],
  ["list --stat=banned", "npm run keys -- list --state banned"],
])("npm itself takes the options of npm run keys %s, and the command refuses", async (words, line) => {
  const outcome = await runProcess("npm", ["run", "--silent", "keys", ...words.split(" ")]);
  expect(outcome).toMatchObject({ exitCode: 2, stdout: "" });
  expect(outcome.stderr).toContain(`because "--" is missing: type ${line}\n`);
});

describe("a failure ends with exit code 1 and one line", () => {
  const ID = "key_000000000000";

  it.each([
    ["show"],
    ["revoke", "--yes"],
    ["rotate", "--yes"],
    ["plan", "pro"],
    ["rename", "other"],
    ["expire", "never"],
    ["unban"],
  ])("%s of an unknown key", async (command, ...rest) => {
    expect(await run(command, ID, ...rest)).toEqual({
      exitCode: 1,
      stdout: "",
      stderr: `error: there is no key ${ID}: see npm run keys -- list\n`,
    });
  });

  it("does not print a key that is given instead of an id", async () => {
    const { key } = await newKey();
    for (const args of [
      ["revoke", key],
      ["list", key],
      ["revoke", ID, key],
      ["list", `--${key}`],
      ["list", "--state", key],
    ]) {
      const { exitCode, stderr } = await run(...args);
      expect([exitCode, stderr.includes(key.slice(4, 20))]).toEqual([2, false]);
      expect(stderr).toContain("pet_…");
    }
  });

  it("names the command that creates a missing database, and does not create it", async () => {
    for (const nowhere of [`${state}-missing`, dirname(state), import.meta.filename]) {
      const { exitCode, stderr } = await runCommandInProcess(keys, ["list", "--persist-to", nowhere]);
      expect([exitCode, stderr]).toEqual([
        1,
        `error: there is no database in ${nowhere}: create it with npm start -- --persist-to ${nowhere}\n`,
      ]);
    }
    expect(existsSync(`${state}-missing`) || existsSync(join(dirname(state), "v3"))).toBe(false);
  });

  it("ends the process of a command whose local server may still run", async () => {
    const args = ["--persist-to", import.meta.filename];
    const { exitCode, stdout, stderr } = await runScript("scripts/main.ts", ["scripts/migrate.ts", ...args]);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^Applying pending migrations\nerror: [^\n]+\n$/);
  });

  it("quotes a folder with a space in the command", async () => {
    const { stderr } = await runCommandInProcess(keys, ["list", "--persist-to", `${state} two`]);
    expect(stderr).toContain(`npm start -- --persist-to '${state} two'\n`);
  });
});
