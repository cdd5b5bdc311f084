// ./petstore keys: what each subcommand does, records and prints, and what it refuses, on production's database, a fake of Cloudflare's API.

import { userInfo } from "node:os";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { migrate } from "../../scripts/cloudflare/database.ts";
import { Io } from "../../scripts/lib/io.ts";
import { BANNED } from "../../src/keys/reports.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { createKey, renameKey, rotateKey } from "../../src/operators/admin.ts";
import { KEY_CHANGES } from "../../src/operators/changes.ts";
import type { LIST_STATES } from "../../src/operators/records.ts";
import { rawResponse, tooManyCalls } from "../support/e2e/cloudflare-api.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { startPetstore } from "../support/e2e/petstore.ts";
import { hasTerminals, runInTerminal } from "../support/e2e/terminal.ts";
import { useAccount } from "../support/e2e/use-account.ts";

const SECRET = /^pet_[0-9A-Za-z]{50}$/;
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
const DAY_MS = 86_400_000;

// Without a database of pets, which these commands don't need.
const { api, databaseOf } = await useAccount(["petstore-keys"]);
const database = databaseOf("petstore-keys");

beforeAll(async () => {
  await migrate(database, "keys");
});

/** Runs `./petstore keys LINE`: where nobody can answer, or in a terminal where somebody types `stdin`. */
async function run(line: string, stdin?: string, piped?: string) {
  return runPetstore(`keys ${line} --remote`, { stdin, ...(piped !== undefined && { piped }) });
}

/** What a line prints. */
const printed = async (line: string) => (await run(line)).stdout;

/** The same with `piped` on standard input. */
const runPiped = (line: string, piped: string) => run(line, undefined, piped);

async function json(line: string) {
  return JSON.parse(await printed(`${line} --json`));
}

/** Creates a key without the command. With a negative lifetime it has expired. */
async function newKey(name = "Ann's shop", lifetimeMs?: number) {
  const expiresAtMs = lifetimeMs === undefined ? null : Date.now() + lifetimeMs;
  const operator = { by: "a test", nowMs: Date.now() - 60_000 };
  const { key, secret } = await createKey(database, { name, plan: "free", expiresAtMs }, operator);
  return { ...key, secret };
}

async function newIds(...names: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const name of names) ids.push((await newKey(name)).id);
  return ids;
}

/** Calls `act` before each attempt to change a key. It may throw an error response, which the attempt gets. */
function onChange(id: string | undefined, act: () => void): void {
  api.intercept(async (_, body, send) => {
    if (body.includes("INSERT INTO key_changes") && body.includes(`${id}`)) act();
    await send();
  });
  onTestFinished(() => api.intercept());
}

/** Starts a process that suspends keys. */
function startSuspension(ids: string[]) {
  const words = "keys suspend - --reason test --yes --remote".split(" ");
  const { child, ended } = startPetstore(words, { stdin: ids.join("\n") });
  const outcome = async (stdout: Readable) => ({ stdout: await text(stdout), ...(await ended) });
  return { child, ended: outcome(child.stdout as Readable) };
}

/** Records bans of a key that began now. */
async function writeBans(id: string, count: number): Promise<void> {
  const insert = database.prepare(
    "INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by) VALUES (?1, ?2, 'banned', ?3, 'a test')",
  );
  const until = new Date(Date.now() + 600_000).toISOString().replace(/\.\d+/, "");
  await database.batch(Array(count).fill(insert.bind(id, Date.now(), until)));
}

/** The row of a key in the table of `list`. */
async function rowOf(id: string): Promise<string | undefined> {
  return (await printed(`list --search ${id}`)).split("\n").find((line) => line.startsWith(id));
}

/** The recorded changes of a key, as `CHANGE: FROM → TO (BY)`, the first one first. */
async function changesOf(id: string): Promise<string[]> {
  const changes: Record<string, string>[] = await json(`log ${id}`);
  return changes.map(({ change, from, to, by }) => `${change}: ${from} → ${to} (${by})`).reverse();
}

describe("./petstore keys create", () => {
  it("prints exactly one JSON value with --json, the key as list prints it and its secret", async () => {
    const agreed =
      "--plan enterprise --per-minute 7 --per-day 1000000000 --expires 2099-12-31T23:59:59+01:00";
    const { stdout, stderr } = await run(`create --name agreed ${agreed} --json`);
    const { key, ...rest } = JSON.parse(stdout);
    const { id } = rest;
    expect(stderr).toBe("");
    const listed = await run(`list --search ${id} --json`);
    expect(JSON.parse(listed.stdout)).toEqual([rest]);
    expect(rest).toEqual({
      id,
      name: "agreed",
      ref: null,
      note: null,
      plan: "enterprise",
      perMinute: 7,
      perDay: 1_000_000_000,
      access: "write",
      lastFour: key.slice(-4),
      createdAt: TIME,
      expiresAt: "2099-12-31T22:59:59Z",
      revokedAt: null,
      suspendedAt: null,
      suspensionReason: null,
      graceUntil: null,
      bannedUntil: null,
      bansInLast30Days: 0,
      state: "active",
      states: ["active"],
    });
    expect(listed.stdout).not.toContain(key);
    expect(await rowOf(id)).toMatch(
      /^key_\w{12} {2}agreed {2}enterprise 7\/minute 1000000000\/day {2}\w{4} {2}2099-\S+Z {2}active$/,
    );
  });

  it("warns of limits that make no sense, and of a name that exists", async () => {
    const { id } = await newKey("Twin&Sons");
    const { exitCode, stderr } = await run(
      "create --name Twin&Sons --plan enterprise --per-minute 5000 --per-day 10",
    );
    expect(exitCode).toBe(0);
    expect(stderr).toContain("warning: the day's limit (10) is smaller than the minute's (5000)\n");
    expect(stderr).toContain(`warning: another key has this name: ${id} ("Twin&Sons", ending in `);
    await run(`revoke ${id} --yes`);
    expect((await run("create --name TWIN&SONS --plan free")).stderr).toMatch(
      new RegExp(`warning: another key has this name: ${id} .*: revoked\n`),
    );
  });
});

it("a key on a plan that this version does not know is named, beside the others, and can be changed", async () => {
  const { id } = await newKey("later");
  const { id: other } = await newKey("later too");
  await database.prepare("UPDATE keys SET plan = 'of-later' WHERE id = ?1").bind(id).run();
  const { stdout, stderr } = await run("list --search later");
  expect(stdout).toMatch(new RegExp(`\n${id}  later +of-later without limits `));
  expect(stdout).toContain(`${other}  later too`);
  expect(stderr).toMatch(
    new RegExp(`^warning: the key ${id} has no limits: .*: \\./petstore keys plan ${id} PLAN --remote\n$`),
  );
  expect(await json(`show ${id}`)).toMatchObject({ plan: "of-later", perMinute: null, perDay: null });
  expect(await json(`plan ${id} pro`)).toMatchObject({ plan: "pro", perMinute: 300 });
});

describe("./petstore keys list", () => {
  let last: Awaited<ReturnType<typeof newKey>>;

  beforeAll(async () => {
    const create = async (name: string, ...lifetimeMs: number[]) =>
      (await newKey(`~${name}`, ...lifetimeMs)).id;
    await create("expiring", 29 * DAY_MS);
    await create("expired", -1);
    const fresh = await create("fresh", 31 * DAY_MS);
    await run(`rotate ${fresh} --yes`);
    await run(`access ${fresh} read`);
    await run(`rotate ${await create("in grace")} --grace 3600 --yes`);
    await writeBans(await create("banned"), 1);
    const unbanned = await create("unbanned");
    await writeBans(unbanned, 3);
    await run(`unban ${unbanned}`);
    await run(`revoke ${await create("revoked", -1)} --yes`);
    const inGrace = await create("revoked in grace");
    await run(`rotate ${inGrace} --grace 3600 --yes`);
    await run(`revoke ${inGrace} --yes`);
    const suspended = await create("suspended");
    await run(`rotate ${suspended} --grace 3600 --yes`);
    await run(`suspend ${suspended} --reason test`);
    await run("create --name ~日本語 --plan pro --expires never");
    last = await newKey("~last");
  });

  /** The names of the keys that are found. */
  async function found(query: string): Promise<string[]> {
    const keys: { name: string }[] = await json(`list ${query}`);
    return keys.map(({ name }) => name.replace("~", ""));
  }

  const STATES = {
    active: ["expiring", "fresh", "in grace", "last", "unbanned", "日本語"],
    suspended: ["suspended"],
    banned: ["banned"],
    "read-only": ["fresh"],
    expiring: ["expiring"],
    "in-grace": ["in grace", "suspended"],
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

  it("compares names without case and in one normal form, also of keys that were stored without that form", async () => {
    const { id } = await newKey("\u00dcber\u03a3");
    await database.prepare("UPDATE keys SET folded_name = NULL WHERE id = ?1").bind(id).run();
    for (const text of ["u\u0308BER", "ber\u03c3"])
      expect(await json(`list --search ${text}`)).toMatchObject([{ id }]);
    for (const name of ["\u00c4¤", "a\u0308¤b", "\u00e4¤C"]) await newKey(name);
    const named = await json("list --search \u00e4¤ --sort name");
    expect(named.map(({ name }: { name: string }) => name.normalize("NFC"))).toEqual([
      "\u00c4¤",
      "\u00e4¤b",
      "\u00e4¤C",
    ]);
    const blank = await runPetstore(["keys", "list", "--search", " ", "--remote"]);
    expect([blank.exitCode, blank.stderr]).toEqual([2, expect.stringContaining("must not be blank")]);
  });

  it("finds a key by a part of its id, by the end of its secret, also a replaced one, and by its name in any case", async () => {
    const { id, lastFour } = await newKey("~rotated");
    await run(`rotate ${id} --yes`);
    await run(`rotate ${id} --yes`);
    expect(await printed(`list --search ${lastFour}`)).toMatch(
      new RegExp(`${id} .* \\w{4} \\(${lastFour} was replaced\\) `),
    );
    expect(await rowOf(id)).not.toContain("was replaced");
    await run(`rename ${id} other`);
    for (const query of [last.id.slice(6, 14), last.lastFour, "~LAST"])
      expect(await found(`--search ${query}`)).toContain("last");
  });

  it("finds a key by a part of its ref in any case, and shows refs if a key has one", async () => {
    const customer = ["--ref", "CRM:Rex-4711", "--note", "pays late\u0301, by invoice"];
    const words = ["keys", "create", "--name", "~with a ref", "--plan", "free", ...customer, "--remote"];
    const { stderr } = await runPetstore(words);
    const [id = ""] = stderr.match(/key_\w{12}/) ?? [];
    expect(await printed("list --search rEX-47")).toMatch(
      new RegExp(`^ID +NAME +REF +PLAN .*\\n${id} +~with a ref +CRM:Rex-4711 +free `),
    );
    expect(await printed(`list --search ${last.id}`)).toMatch(/^ID +NAME +PLAN /);
    const note = "pays late\u0301, by invoice";
    expect(await json(`list --search ${id}`)).toMatchObject([{ ref: "CRM:Rex-4711", note }]);
    expect(await printed(`show ${id}`)).toMatch(/\nRef +CRM:Rex-4711\nNote +pays late\u0301, by invoice\n/);
    expect(await changesOf(id)).toEqual([
      `created: null → free, ref CRM:Rex-4711, note ${note} (${userInfo().username})`,
    ]);
  });

  it("shows pages of the table", async () => {
    const page = (number: number) => run(`list --search ~ --sort name --limit 9 --page ${number}`);
    const { stdout, stderr } = await page(1);
    expect(stdout).toMatch(
      /^ID .*\nkey_\w{12} {2}~banned .* banned until \d{4}-\S+Z +1\n(.*\n)*.*~suspended .* suspended, in-grace\n/,
    );
    const line = "./petstore keys list --search '~' --sort name --limit 9 --page 2 --remote";
    expect(stderr).toBe(`Keys 1 to 9 of 11. Next: ${line}\n`);
    const second = await page(2);
    expect(second.stdout).toMatch(/^ID .*\nkey_\w{12} {2}~unbanned .*\nkey_\w{12} {2}~日本語 {4}pro /);
    expect(second.stderr).toBe("Keys 10 to 11 of 11.\n");
    expect(await page(3)).toMatchObject({ exitCode: 0, stdout: "", stderr: "There is no page 3.\n" });
  });
});

it("./petstore keys revoke ends a key for good, after saying whose it is", async () => {
  const { id, lastFour } = await newKey();
  expect(await run(`revoke ${id}`)).toMatchObject({ exitCode: 2, stdout: "" });
  for (const answer of ["n\n", ""]) expect((await run(`revoke ${id}`, answer)).exitCode).toBe(1);
  expect(await rowOf(id)).toMatch(/ active$/);
  const { exitCode, stdout, stderr } = await run(`revoke ${id}`, "y\n");
  expect([exitCode, stdout]).toEqual([0, `Revoked ${id} ("Ann's shop"): revoked.\n`]);
  expect(stderr).toMatch(
    new RegExp(`This ends ${id} \\("Ann's shop", ending in ${lastFour}, .*\\) for good`),
  );
  expect(await rowOf(id)).toMatch(/ revoked$/);
});

it("./petstore keys rotate prints a new key for the same id, and when the old one ends", async () => {
  const { id, secret, expiresAtMs } = await newKey("Ann's shop", DAY_MS);
  const { stdout, stderr } = await run(`rotate ${id} --grace 3600 --yes`);
  const second = stdout.trim();
  expect(second).toMatch(SECRET);
  expect(stderr).toMatch(
    /This replaces the current key of .*, which stops working everywhere at \d{4}-\S+Z\.\n/,
  );
  expect(stderr).toMatch(/Rotated key_\w{12} \("Ann's shop"\): active, expiring, in-grace, free plan/);
  const now = await run(`rotate ${id}`);
  expect(now.stderr).toMatch(
    / within 30 seconds\. So do the keys that it has replaced, which would work until \d{4}-\S+Z\.\n/,
  );
  const { key: third, ...rest } = await json(`rotate ${id} --yes`);
  expect([rest]).toEqual(await json(`list --search ${id}`));
  expect(new Set([secret, second, third]).size).toBe(3);

  const end = new Date(expiresAtMs ?? 0).toISOString().replace(/\.\d+Z/, "Z");
  const long = await run(`rotate ${id} --grace 2592000 --yes`);
  expect(long.stderr).toContain(`stops working everywhere at ${end}.`);
  const short = await run(`rotate ${id} --grace 29 --yes`);
  expect(short.stderr).toContain("stops working everywhere within 30 seconds.");
});

it("every change is recorded, with the values before and after, and who made it", async () => {
  const { id, lastFour } = await newKey();
  await writeBans(id, 1);
  const COMMANDS = [
    ["rename ID Ann&Jo", "renamed: Ann's shop → Ann&Jo"],
    ["ref ID C-1", "ref: null → C-1"],
    ["ref ID ", "ref: C-1 → null"],
    ["note ID invoice", "note: null → invoice"],
    ["note ID late", "note: invoice → late"],
    ["plan ID enterprise --per-minute 7 --per-day 70", "plan: free → enterprise 7/minute 70/day"],
    ["plan ID pro", "plan: enterprise 7/minute 70/day → pro"],
    ["access ID read", "access: write → read"],
    ["access ID write", "access: read → write"],
    ["expire ID 2099-01-31", "expiry: never → 2099-01-31T00:00:00Z"],
    ["expire ID never", "expiry: 2099-01-31T00:00:00Z → never"],
    ["rotate ID --yes", `rotated: ${lastFour} → \\w{4}`],
    ["rotate ID --grace 60 --yes", "rotated: \\w{4} → \\w{4}, the old key works until \\d{4}-\\S+Z"],
    ["end-grace ID --yes", "grace: \\d{4}-\\S+Z → ended"],
    ["suspend ID --reason leaked", "suspended: null → leaked"],
    ["resume ID", "resumed: \\d{4}-\\S+Z → null"],
    ["unban ID", "unbanned: \\d{4}-\\S+Z → null"],
    ["unban ID", "unbanned: null → null"],
  ] as const;
  for (const [line] of COMMANDS) await run(`${line.replace("ID", id)} --by Jo`);
  const { isChanged, ...revoked } = await json(`revoke ${id} --yes`);
  expect(isChanged).toBe(true);
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
  expect(await printed("log")).toMatch(new RegExp(`${id} +Ann&Jo +rotated +${lastFour} +\\w{4} +Jo\n`));
});

it("a command that changes nothing says so, records nothing, and is no failure, also for several keys", async () => {
  const { id } = await newKey("same", DAY_MS);
  await run(`ref ${id} C-2`);
  await run(`plan ${id} enterprise --per-minute 5 --per-day 50`);
  const enterprise = "plan ID enterprise --per-minute 5 --per-day";
  const attempt = async (line: string, state: string) => {
    const before = await changesOf(id);
    const { exitCode, stdout, stderr } = await run(line.replace("ID", id));
    expect([exitCode, stdout, stderr]).toEqual([
      0,
      expect.stringMatching(`^Not changed: ${id} \\("same"\\): ${state}`),
      "",
    ]);
    expect(await changesOf(id)).toEqual(before);
    return stdout;
  };
  for (const line of [
    ...["rename ID same", "ref ID C-2", "note ID ", `${enterprise} 50`],
    ...["access ID write", "resume ID", "end-grace ID"],
  ])
    await attempt(line, "active, expiring");
  expect((await run(`${enterprise.replace("ID", id)} 51`)).stdout).toMatch(/^Changed /);
  await run(`expire ${id} 2099-01-31`);
  await attempt("expire ID 2099-01-31", "active, ent");
  await run(`suspend ${id} --reason leaked`);
  for (const options of ["", " --replace"])
    await attempt(`suspend ID --reason LEAKED${options}`, "suspended, ent");
  await run(`rotate ${id} --grace 60 --yes`);
  await run(`revoke ${id} --yes`);
  const stdout = await attempt("revoke ID", "revoked.");
  await attempt("end-grace ID", "revoked.");
  expect(await json(`revoke ${id}`)).toMatchObject({ id, isChanged: false });
  expect(await runPiped("revoke - --yes", id)).toMatchObject({
    exitCode: 0,
    stdout,
    stderr: expect.stringMatching(/\nChanged 0 of 1 key\. Unchanged: 1\.\n$/),
  });
});

it("./petstore keys show shows all about a key, and no characters that could deceive the reader of a terminal", async () => {
  const { id } = await newKey();
  await run(`rotate ${id} --grace 60 --yes`);
  await renameKey(database, id, "Ann\u202e\nshop", { by: "a test", nowMs: Date.now() });
  const stdout = await printed(`show ${id}`);
  expect(stdout).toMatch(new RegExp(`^${id} {2}Ann\\?\\?shop\n`));
  expect(stdout).toMatch(/\nOld keys +that ending in \w{4} works until \d{4}-\S+Z\n/);
  expect(stdout).toMatch(/ +renamed +Ann's shop +Ann\?\?shop +a test\n/);
  const details = { id, state: "active", graces: [{ until: TIME }], changes: { length: 3 } };
  expect(await json(`show ${id}`)).toMatchObject(details);
});

it("./petstore keys log is complete, also with --json, and show says which changes it leaves out", async () => {
  const { id } = await newKey("busy");
  const fill = `
    WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2100)
    INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by)
    SELECT ?1, 1700000000000 + i * 1000, iif(i = 7, 'revoked', 'renamed'), i || ?2, iif(i = 5, 'J\u00fcrgen', 'Jo') FROM n`;
  await database.prepare(fill).bind(id, "x".repeat(100)).run();
  const all = await json(`log ${id}`);
  expect(all.map(({ to }: { to: string }) => Number.parseInt(to, 10) || 0)).toEqual([
    ...Array.from({ length: 2_100 }, (_, index) => 2_100 - index),
    0,
  ]);
  const table = await run(`log ${id}`);
  expect([table.stderr, table.stdout.match(/x{100}/g)?.length]).toEqual(["", 2_100]);
  for (const [filter, ...expected] of [
    ["--kind revoked", "7"],
    ["--by JU\u0308RGEN", "5"],
    ["--since 2023-11-14T22:13:22Z --until 2023-11-14T22:13:24.500+00:00", "4", "3", "2"],
    ["--until 2023-11-14T22:13:22Z --kind renamed", "1"],
    ["--until 2023-11-14"],
  ]) {
    const found: { to: string }[] = await json(`log ${id} ${filter}`);
    expect(found.map(({ to }) => to.replaceAll("x", ""))).toEqual(expected);
  }
  const latest = await run(`log ${id} --limit 3 --json`);
  expect([JSON.parse(latest.stdout).length, latest.stderr]).toEqual([
    3,
    "These are the latest 3 of 2101 changes.\n",
  ]);
  const shown = await printed(`show ${id}`);
  expect(shown).toContain(`\nChanges (the latest 20 of 2101: ./petstore keys log ${id} --remote):\n`);
  expect(await json(`show ${id}`)).toMatchObject({ changes: { length: 2_101 } });
});

it("changes of a key that is unknown, revoked or expired are refused; an expired key can be prolonged", async () => {
  const [{ id: revoked }, { id: expired }] = [await newKey(), await newKey("expired", -1)];
  await run(`revoke ${revoked} --yes`);
  const unknown = "there is no key key_000000000000: see ./petstore keys list --remote";
  for (const [line, problem] of [
    ...["show", "log", "unban", "revoke"].map((name) => [`${name} key_000000000000`, unknown]),
    [`rotate ${revoked} --yes`, `${revoked} is revoked, for good: nothing about it can be changed`],
    ...[`rotate ${expired}`, `plan ${expired} pro`].map((line) => [
      line,
      `${expired} has expired: ./petstore keys expire ${expired} DATE --remote moves its end`,
    ]),
  ] as [string, string][])
    expect(await run(line)).toMatchObject({ exitCode: 1, stdout: "", stderr: `error: ${problem}\n` });
  expect(await changesOf(revoked)).toHaveLength(2);
  expect(await printed(`expire ${expired} 2099-01-31`)).toContain("expires 2099-01-31T00:00:00Z.");
  expect(await rowOf(expired)).toMatch(/ 2099-01-31 +active$/);
});

describe("./petstore keys suspend and resume", () => {
  it("suspend leaves a key that is suspended for another reason, and prints the command that replaces the reason", async () => {
    const { id } = await newKey();
    await run(`suspend ${id} --reason unpaid`);
    const { exitCode, stdout, stderr } = await run(`suspend ${id} --reason leaked`);
    expect([exitCode, stdout]).toEqual([1, ""]);
    const kept = `${id} stays suspended: since \\S+Z, for the reason "unpaid"; to replace that: `;
    const [, command = ""] = stderr.match(`^error: ${kept}\\./petstore keys (.*) --remote\n$`) ?? [];
    await run(command);
    const changes = ["suspended: null → unpaid", "suspended: unpaid → leaked"];
    expect((await changesOf(id)).slice(1)).toEqual(changes.map((each) => expect.stringContaining(each)));
    // The key has the reason of the record at the time of its suspension.
    expect(await json(`list --search ${id}`)).toMatchObject([{ suspensionReason: "leaked" }]);
  });

  it("resume --reason leaves keys suspended that are so for another reason, and says so", async () => {
    const ids = await newIds("unpaid", "leaked", "active");
    const [unpaid, leaked, active] = ids;
    await run(`suspend ${leaked} --reason leaked`);
    const suspended = await runPiped("suspend - --reason Unpaid --yes", `${unpaid}\n${leaked}`);
    expect(suspended.stderr).toMatch(/\nChanged 1 of 2 keys\. Unchanged: 1\.\n/);
    const resume = "resume - --reason UNPAID --yes";
    const { exitCode, stdout, stderr } = await runPiped(resume, ids.join("\n"));
    expect([exitCode, stdout.match(/^.*key_\w+/gm)]).toEqual([
      0,
      [`Resumed ${unpaid}`, `Not changed: ${active}`],
    ]);
    expect(stderr).toMatch(new RegExp(`\n${leaked} stays suspended: since \\S+Z, for the reason "leaked"\n`));
    expect(stderr).toContain("\nChanged 1 of 3 keys. Unchanged: 2.\n");
    expect(await json(`list --state suspended --search ${leaked}`)).toMatchObject([
      { suspensionReason: "leaked" },
    ]);
    const one = await run(`resume ${leaked} --reason unpaid`);
    expect([one.exitCode, one.stdout]).toEqual([1, ""]);
    expect((await run(`resume ${leaked} --reason Leaked`)).exitCode).toBe(0);
    expect(await changesOf(leaked ?? "")).toHaveLength(3);
  });

  it("suspend refuses a key until resume, also one that is changed, or that expires meanwhile", async () => {
    const { id } = await newKey("suspended");
    await run(`suspend ${id} --reason test`);
    expect((await run(`rotate ${id} --yes`)).stderr).toContain(
      `Rotated ${id} ("suspended"): suspended, free`,
    );
    const { id: expired } = await newKey("expired", -1);
    const states = ["suspended", "expired"];
    expect(await json(`suspend ${expired} --reason test`)).toMatchObject({ state: "suspended", states });
    // Resumed, it still is expired.
    expect(await printed(`resume ${expired}`)).toMatch(/: expired, free plan, .*, expired \d{4}-\S+Z\.\n/);
  });
});

it("a read-only key is shown as one, from its creation until it may write", async () => {
  const { stdout: secret, stderr } = await run("create --name reader --plan free --read-only");
  const [, id = ""] = stderr.match(/\nCreated (key_\w{12}) \("reader"\): active, read-only, free plan/) ?? [];
  expect(await rowOf(id)).toMatch(/ active, read-only$/);
  expect(await printed(`show ${id}`)).toMatch(/\nState +active, read-only\n(.*\n)*Access +read only\n/);
  expect((await runPiped("find", secret)).stdout).toMatch(/: active, read-only\n/);
  expect(await run(`access ${id} write`)).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining(`Changed the access of ${id} ("reader"): active, free plan`),
    stderr: "This takes effect everywhere within 30 seconds.\n",
  });
  expect((await changesOf(id))[0]).toMatch(/^created: null → free, read-only /);
  // An expired key is no read-only one until it works again.
  const { id: expired } = await newKey("expired", -1);
  expect(await json(`access ${expired} read`)).toMatchObject({ access: "read", states: ["expired"] });
  expect(await printed(`expire ${expired} never`)).toContain(": active, read-only, ");
});

describe("./petstore keys find", () => {
  const find = (secret: string) => runPiped("find", `${secret}\n`);

  it("says whose a key is, and until when it works, if it is piped or typed", async () => {
    const { id, secret, lastFour } = await newKey();
    const current = await find(secret);
    expect(current.exitCode).toBe(0);
    expect(current.stdout).toMatch(
      new RegExp(
        `^${id} \\("Ann's shop", ending in ${lastFour}, created .*\\): active\nThe key ending in ${lastFour} is the current one. It works; it never expires.\n$`,
      ),
    );
    expect(current.stderr).toBe(`If it leaked: ./petstore keys rotate ${id} --remote\n`);
    expect((await find(`Authorization: Bearer "${secret}"`)).stdout).toBe(current.stdout);
    const typed = await run("find", `${secret}\n`);
    expect(typed.stdout).toBe(current.stdout);
    expect(typed.using + typed.stderr).toBe(`API key (it is not shown): \n${current.using}${current.stderr}`);

    await run(`rotate ${id} --grace 3600 --yes`);
    const replaced = await find(secret);
    expect(replaced.stdout).toMatch(
      /: active, in-grace\nThe key ending in \w{4} was replaced by a rotation. It works; it ends at \d{4}-\S+Z.\n$/,
    );
    expect(replaced.stderr).toBe(`If it leaked: ./petstore keys end-grace ${id} --remote\n`);
    for (const [line, verdict] of [
      ["suspend ID --reason test", "while the key is suspended; it ends at \\S+Z"],
      // From here on, a resumption would not help.
      ["end-grace ID --yes", ": it ended at \\S+Z"],
      ["revoke ID --yes", ": the key is revoked"],
    ] as const) {
      await run(line.replace("ID", id));
      const found = await find(secret);
      expect(found.stdout).toMatch(new RegExp(`It does not work ?${verdict}\\.\n$`));
      expect(found.stderr).toBe("");
    }
    const banned = await newKey("banned");
    await writeBans(banned.id, 1);
    expect((await find(banned.secret)).stdout).toMatch(/ It works after the ban; it never expires\.\n$/);
    const { secret: expired } = await newKey("expired", -1);
    expect((await find(expired)).stdout).toMatch(/current one. It does not work: it ended at \d{4}-\S+Z.\n$/);
  });

  it.skipIf(!hasTerminals)("a terminal does not show the key, however soon it is typed", async () => {
    const { id, secret } = await newKey();
    const command = [process.execPath, "scripts/petstore.ts", "keys", "find", "--remote"];
    const { exitCode, stdout } = await runInTerminal(command, "(it is not shown)", secret, api.environment);
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining(`${id} ("Ann's shop"`)]);
    expect(stdout).not.toContain(secret.slice(16, 24));
  });

  it("prints exactly one JSON value with --json", async () => {
    const { id, secret, expiresAtMs } = await newKey("Ann's shop", DAY_MS);
    await run(`rotate ${id} --grace 2592000 --yes`);
    // The grace ends with the key.
    const endsAt = new Date(expiresAtMs ?? 0).toISOString().replace(/\.\d+Z/, "Z");
    const verdict = { id, state: "active", isCurrent: false, works: true, problem: null, endsAt };
    expect(JSON.parse((await runPiped("find --json", secret)).stdout)).toMatchObject(verdict);
  });

  it("exits with 1 for an unknown key or a part of one, and with 2 for a text that is none, and prints neither", async () => {
    const { id, secret } = await newKey();
    const mistyped = `this is not a whole API key, or it is mistyped; its ID would be ${id}: ./petstore keys show ${id} --remote\n`;
    for (const [text, exitCode, problem] of [
      [newSecret("key_000000000000"), 1, "unknown here: no key has the ID key_000000000000."],
      [newSecret(id), 1, `unknown: ${id} ("Ann's shop", `],
      [secret.slice(0, -1), 1, mistyped],
      [secret.slice(0, 16), 1, mistyped],
      [`${secret}x`, 1, mistyped],
      [`x${secret}`, 2, "this is not an API key"],
      [secret.slice(0, 12), 2, "this is not an API key, which is pet_ and 50 letters and digits"],
      [
        `{"id":"${id}"}`,
        2,
        `this is the ID of a key, not the key itself: ./petstore keys show ${id} --remote\n`,
      ],
      ["", 2, "standard input is empty\n"],
    ] as const) {
      const outcome = await find(text);
      expect(outcome).toMatchObject({
        exitCode,
        stdout: "",
        stderr: expect.stringContaining(`error: ${problem}`),
      });
      if (text.length > 16) expect(outcome.stderr).not.toContain(text.slice(16, 24));
    }
  });

  it("several keys get a verdict each, once, and with --json an element each", async () => {
    const [a, b] = [await newKey("a"), await newKey("b")];
    await run(`rotate ${b.id} --yes`);
    const unknown = newSecret("key_000000000000");
    const piped = `name,id,key\na,Bearer%20${a.secret},${a.id}\nb\\n${b.secret}\\n${a.secret}\n=${unknown} carpet_123456789012\n${a.secret.slice(0, 20)}`;
    const { exitCode, stdout, stderr } = await runPiped("find", piped);
    expect([exitCode, stdout.match(/^key_\w+/gm)]).toEqual([1, [a.id, b.id]]);
    expect(stdout).toMatch(/ is the current one\..*\n.*\n.* was replaced by a rotation\./);
    expect(stderr.match(/^error: line \d: .{9}/gm)).toEqual([
      "error: line 4: unknown h",
      "error: line 5: this is n",
    ]);
    const all = JSON.parse((await runPiped("find --json", piped)).stdout);
    expect(all).toMatchObject([
      { id: a.id, works: true },
      { id: b.id, works: false, isCurrent: false },
      { line: 4, id: "key_000000000000", error: expect.stringContaining("unknown here") },
      { line: 5, id: a.id, error: expect.stringContaining("not a whole API key") },
    ]);
  });
});

/** What follows the announcement of a change of several keys. */
const AS_WISHED = "A key that is so already, or can't be changed, stays as it is.";

describe("IDs on standard input", () => {
  it("each gets its line, in their order, also if one of them can't be changed: exit code 1", async () => {
    const [a = "", b = "", c = ""] = await newIds("a", "b", "c");
    await run(`revoke ${b} --yes`);
    const piped = `${a}\n\n  ${b}\r\nkey_000000000000\n${c}\n${a}`;
    const { exitCode, stdout, stderr } = await runPiped("suspend - --reason test --yes", piped);
    expect([exitCode, stdout.match(/^.*key_\w+/gm)]).toEqual([1, [`Suspended ${a}`, `Suspended ${c}`]]);
    expect(stderr).toBe(
      [
        `This suspends 3 keys (${a} "a", ${b} "b", ${c} "c"). ${AS_WISHED}`,
        `error: ${b} is revoked, for good: nothing about it can be changed`,
        "error: there is no key key_000000000000: see ./petstore keys list --remote",
        "Changed 2 of 4 keys. Failed: 2.",
        "This takes effect everywhere within 30 seconds.\n",
      ].join("\n"),
    );
  });

  it("without --yes, the command says what it would change, and changes nothing", async () => {
    const ids = await newIds("a", "b", "c", "d", "e");
    const keys = `5 keys (${ids[0]} "a", ${ids[1]} "b", ${ids[2]} "c", and 2 more)`;
    const problem = "standard input has the IDs, so nobody can answer there: add --yes to do it";
    for (const line of [
      ...["revoke -", "suspend - --reason test", "resume -", "expire - never", "plan - pro", "access - read"],
      ...["unban -", "end-grace -", "rotate -", "ref - x", "note - x"],
    ]) {
      const { exitCode, stdout, stderr } = await runPiped(line, ids.join("\n"));
      const [announced, ...rest] = stderr.split("\n");
      expect([exitCode, stdout, rest]).toEqual([2, "", [`error: ${problem}`, ""]]);
      expect(announced).toContain(keys);
    }
    const { stderr } = await runPiped("expire - 2099-01-31", `${ids[0]}\nkey_000000000000`);
    expect(stderr).toContain(`the expiry of 1 key (${ids[0]} "a") to 2099-01-31T00:00:00Z. ${AS_WISHED}\n`);
    expect(stderr).toContain("\nUnknown: key_000000000000\nerror: ");
    for (const id of ids) expect(await changesOf(id)).toHaveLength(1);
  });

  it("one JSON array is printed with --json", async () => {
    const [line, change] = ["plan - pro", { plan: "pro", isChanged: true }];
    const ids = await newIds("a", "b");
    const piped = `${ids[0]}\nkey_000000000000\n${ids[1]}`;
    const { exitCode, stdout } = await runPiped(`${line} --yes --json`, piped);
    const unknown = { id: "key_000000000000", error: expect.stringContaining("there is no key") };
    expect([exitCode, JSON.parse(stdout)]).toMatchObject([
      1,
      [{ id: ids[0], ...change }, unknown, { id: ids[1], ...change }],
    ]);
  });

  it("rotate prints a line of CSV for each key, and names the others", async () => {
    const ids = await newIds("a", "b, c");
    const piped = `${ids[0]}\nkey_000000000000\n${ids[1]}`;
    const { exitCode, stdout, stderr } = await runPiped("rotate - --grace 3600 --yes", piped);
    const [header, first, second] = stdout.split("\n");
    expect([exitCode, header]).toEqual([1, "name,id,key"]);
    expect(first).toMatch(new RegExp(`^a,${ids[0]},pet_\\w{50}$`));
    expect(second).toMatch(new RegExp(`^"b, c",${ids[1]},pet_\\w{50}$`));
    expect(stderr).toContain("error: there is no key key_000000000000: see");
    expect(stderr).toContain("\nChanged 2 of 3 keys. Failed: 1.\n");
    const found = (await runPiped("find", stdout)).stdout;
    expect(found.match(/is the current one\. It works/g)).toHaveLength(2);
    expect(await rowOf(ids[0] ?? "")).toMatch(/ active, in-grace$/);
    expect((await runPiped("rotate - --yes --json", piped)).exitCode).toBe(2);
  });

  it("a line that is no ID is refused before anything is changed, and a key in it is not printed", async () => {
    const { id, secret } = await newKey();
    // Of a key without its prefix, no other part of the program would know that it is one once it is cut.
    for (const line of ["ID", secret, secret.slice(4), "key_1", `${id},x`]) {
      const { exitCode, stdout, stderr } = await runPiped("revoke - --yes", `${id}\n${line}\n`);
      expect([exitCode, stdout]).toEqual([2, ""]);
      expect(stderr).toMatch(/^error: line 2 of standard input is no ID, and nothing was changed: .*\n$/);
      expect(stderr).not.toContain(secret.slice(16, 24));
    }
    expect(await changesOf(id)).toHaveLength(1);
  });

  it("after Ctrl+C, the key that is being changed is finished, and the others can be changed later", async () => {
    const ids = await newIds("a", "b", "c", "d");
    const { child, ended } = startSuspension(ids);
    onChange(ids[0], () => void child.kill("SIGINT"));
    const { exit, stdout, stderr } = await ended;
    // The process learns of the signal during the first change, or just after it.
    const done = stdout.split("\n").length - 1;
    expect([1, 2]).toContain(done);
    expect(stdout).toMatch(new RegExp(`^Suspended ${ids.slice(0, done).join(" .*\nSuspended ")} .*\n$`));
    expect(exit).toBe(1);
    expect(stderr).toMatch(
      new RegExp(`\nChanged ${done} of 4 keys\\.\nThis takes effect .*\nerror: interrupted\n$`),
    );
    const rest = ids.slice(done);
    for (const id of rest) expect(await changesOf(id)).toHaveLength(1);
    const { exitCode } = await runPiped("suspend - --reason test --yes", rest.join("\n"));
    expect(exitCode).toBe(0);
    for (const id of ids) expect(await changesOf(id)).toHaveLength(2);
  });
});

describe("while Cloudflare's API takes no calls", () => {
  const SUSPEND = "suspend - --reason test --yes";
  const AT_ONCE = { "Retry-After": "0" };
  const REFUSED =
    "Cloudflare's API refused: Please wait and consider throttling your request speed, also after 3 waits (971)";
  /** What is written past the streams of the command. */
  let told: string[];
  let isTold: Promise<void>;

  beforeEach(() => {
    const { promise, resolve } = Promise.withResolvers<void>();
    isTold = promise;
    told = [];
    vi.spyOn(process.stderr, "write").mockImplementation((line) => {
      told.push(`${line}`);
      resolve();
      return true;
    });
  });
  afterEach(() => void vi.restoreAllMocks());

  it("a change of several keys waits as long as it is told to, and changes each key once", async () => {
    const ids = await newIds("a", "b", "c");
    let refusals = 0;
    onChange(ids[1], () => {
      refusals += 1;
      if (refusals === 1) throw tooManyCalls(AT_ONCE);
    });
    const { exitCode, stdout, stderr } = await runPiped(SUSPEND, ids.join("\n"));
    expect([exitCode, stdout.match(/key_\w+/g)]).toEqual([0, ids]);
    expect(stderr).toContain("\nChanged 3 of 3 keys.\n");
    expect(told).toEqual([
      expect.stringMatching(/^Cloudflare's API takes no calls for now: waiting for 0 s, until \S+Z\n$/),
    ]);
    for (const id of ids) expect(await changesOf(id)).toHaveLength(2);
  });

  it("a change of several keys ends after three waits, and says so", async () => {
    const ids = await newIds("a", "b", "c");
    const [a, b] = ids;
    onChange(b, () => {
      throw tooManyCalls(AT_ONCE);
    });
    const { exitCode, stdout, stderr } = await runPiped(SUSPEND, ids.join("\n"));
    expect([exitCode, stdout]).toEqual([1, expect.stringMatching(new RegExp(`^Suspended ${a} .*\n$`))]);
    expect(stderr.split("\n").slice(1)).toEqual([
      `error: the database can't be reached: ${REFUSED}`,
      "Changed 1 of 3 keys. Failed: 1.",
      "This takes effect everywhere within 30 seconds.",
      "error: the other keys were not tried",
      "",
    ]);
    expect(told).toHaveLength(3);
    const counts = ids.map(async (id) => (await changesOf(id)).length);
    expect(await Promise.all(counts)).toEqual([2, 1, 1]);
  });

  it("a command on one key says so at once; a change that was made is shown without another call", async () => {
    const { id } = await newKey();
    const refuse = () =>
      api.intercept(async () => {
        throw tooManyCalls();
      });
    onChange(id, refuse);
    const { exitCode, stdout } = await run(`suspend ${id} --reason test`);
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(`^Suspended ${id}`)]);
    const refused = await run(`resume ${id}`);
    expect([refused.exitCode, refused.stdout]).toEqual([1, ""]);
    expect(refused.stderr).toMatch(/^error: Cloudflare's API refused: .* \(971\)$/m);
    expect(told).toEqual([]);
  });

  it("a change of keys waits five minutes if it is not told how long", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const { id } = await newKey();
    let calls = 0;
    onChange(id, () => {
      calls += 1;
      if (calls === 1) throw tooManyCalls();
    });
    const running = runPiped(SUSPEND, id);
    await isTold;
    await vi.advanceTimersByTimeAsync(299_999);
    expect(calls).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(await running).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(`^Suspended ${id}`) });
    expect(told.join()).toContain(" waiting for 300 s, ");
  });

  it.each([
    [200, '{"success":tr'],
    [429, '{"success":false,"errors":[{"code":7429,"message":"too much load"}]}'],
    [500, '{"success":false,"errors":[{"code":7500,"message":"D1_ERROR: Network connection lost"}]}'],
  ] as const)(
    "after a response with the status %i and the body %s, a change may have been made, and others go on",
    async (status, body) => {
      const [a = "", b = ""] = await newIds("a", "b");
      api.intercept(async (_, sent, send) => {
        await send();
        if (sent.includes("INSERT INTO key_changes") && sent.includes(a)) throw rawResponse(status, body);
      });
      onTestFinished(() => api.intercept());
      const { exitCode, stdout, stderr } = await runPiped(SUSPEND, `${a}\n${b}`);
      expect([exitCode, stdout.match(/key_\w+/g), told]).toEqual([1, [b], []]);
      expect(stderr).toContain(`; the change may have been made: see ./petstore keys log ${a} --remote\n`);
      expect(await changesOf(a)).toHaveLength(2);
    },
  );

  it("Ctrl+C ends the wait of a change of several keys", async () => {
    const ids = await newIds("a", "b", "c");
    onChange(ids[1], () => {
      throw tooManyCalls();
    });
    const { child, ended } = startSuspension(ids);
    child.stderr?.on("data", (chunk) => `${chunk}`.includes("waiting for 300 s") && child.kill("SIGINT"));
    const { exit, stdout, stderr } = await ended;
    expect([exit, stdout]).toEqual([1, expect.stringMatching(new RegExp(`^Suspended ${ids[0]} .*\n$`))]);
    expect(stderr).toContain(
      "too many calls, and the wait was interrupted (429)\nChanged 1 of 3 keys. Failed: 1.\n",
    );
    expect(stderr).toMatch(/\nerror: interrupted\n$/);
  });
});

describe("two operators at once", () => {
  /** What happens in the minute in which Ann is asked, before she says yes. */
  function whileAsked(happen: (jo: { by: string; nowMs: number }) => unknown) {
    vi.useFakeTimers({ toFake: ["Date"] });
    const asked = vi.spyOn(Io.prototype, "confirm").mockImplementation(async () => {
      vi.setSystemTime(Date.now() + 60_000);
      await happen({ by: "Jo", nowMs: Date.now() });
    });
    onTestFinished(() => {
      asked.mockRestore();
      vi.useRealTimers();
    });
    return asked;
  }

  it.each(["revoke ID", "rotate ID --grace 60", "end-grace ID"])(
    "%s changes nothing if the key that it has asked about was rotated, and says by whom",
    async (line) => {
      const { id } = await newKey();
      await rotateKey(database, id, 60_000, { by: "a test", nowMs: Date.now() });
      const asked = whileAsked((jo) => rotateKey(database, id, 60_000, jo));
      const { exitCode, stdout, stderr } = await run(`${line.replace("ID", id)} --by Ann`);
      expect([exitCode, stdout]).toEqual([1, ""]);
      const problem = `${id} was rotated meanwhile by Jo, at \\S+Z: nothing was changed.`;
      expect(stderr).toMatch(new RegExp(`error: ${problem} See ./petstore keys log ${id} --remote,`));
      expect(await rowOf(id)).toMatch(/ active, in-grace$/);
      expect((await changesOf(id)).slice(2)).toEqual([expect.stringContaining("(Jo)")]);
      if (line === "end-grace ID")
        expect(asked.mock.calls[0]?.[0]).toMatch(/ would work until \d{4}-\S+Z at most\./);
    },
  );

  it("the record has their changes in order, each with the time at which it was made", async () => {
    const { id } = await newKey();
    whileAsked((jo) => renameKey(database, id, "other", jo));
    await run(`revoke ${id} --by Ann`);
    const [revoked, renamed] = await json(`log ${id}`);
    expect([revoked, renamed]).toMatchObject([{ by: "Ann" }, { by: "Jo" }]);
    expect(revoked.at).toBe(renamed.at);
  });

  it("a grace ends when the question said, however long the answer took", async () => {
    const { id } = await newKey();
    const confirm = whileAsked(() => {});
    await run(`rotate ${id} --grace 3600`);
    const [, end = "none"] = confirm.mock.calls[0]?.[0].match(/everywhere at (\S+)\.$/) ?? [];
    expect((await json(`log ${id}`))[0].to).toMatch(new RegExp(`, the old key works until ${end}$`));
  });
});
