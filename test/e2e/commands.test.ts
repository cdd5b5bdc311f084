// What every command of `./petstore` has in common: help without side effects, and wrong usage that exits with 2 and one line.

import { existsSync } from "node:fs";
import { mkdtemp, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { PassThrough } from "node:stream";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { Program } from "../../scripts/lib/command.ts";
import { Io } from "../../scripts/lib/io.ts";
import { petstore } from "../../scripts/petstore.ts";
import { PLANS } from "../../src/keys/plans.ts";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { runPetstore } from "../support/e2e/in-process.ts";

const PROJECT = resolve();

const stream = new PassThrough();
const IO = new Io({ stdin: stream, stdout: stream, stderr: stream, env: {} });

/** All commands and groups, by the words that select them. */
const COMMANDS = new Map<string, Program>();
await collect(petstore, "");

async function collect(program: Program, words: string): Promise<void> {
  COMMANDS.set(words, program);
  for (const [name, [, load]] of Object.entries(program.commands ?? {}))
    await collect((await load()).default, `${words} ${name}`.trim());
}

describe.each([...COMMANDS])("./petstore %s", (words, program) => {
  const line = `./petstore ${words}`.trim();
  const { options } = program.build(line, "does something", IO);

  it("has help with a usage line and examples that name it, which changes no file", async () => {
    const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
    process.chdir(folder);
    onTestFinished(() => {
      process.chdir(PROJECT);
      // Fails if the folder is not empty.
      return rmdir(folder);
    });
    const { exitCode, stdout, stderr } = await runPetstore(`${words} --help`.trim());
    expect([exitCode, stderr]).toEqual([0, ""]);
    expect(stdout).toContain(`Usage: ${line} `);
    const [, examples = ""] = stdout.split("\nExamples:\n");
    const lines = examples.trimEnd().split("\n");
    expect(lines.length).toBeGreaterThanOrEqual(2);
    for (const example of lines) expect(`${example} `).toContain(`  ${line} `);
  });

  it("suggests what a mistyped option may mean", async () => {
    for (const { long } of options) {
      const typed = `${long}${long?.at(-1)}`;
      const { exitCode, stdout, stderr } = await runPetstore(`${words} ${typed}`.trim());
      const problem = `error: unknown option '${typed}' (Did you mean ${long}?); see ${line} --help\n`;
      expect([exitCode, stdout, stderr]).toEqual([2, "", problem]);
    }
  });
});

it.each([...COMMANDS].filter(([, { commands }]) => commands))(
  "./petstore %s prints its help and exits with 2 without a command",
  async (words) => {
    const { exitCode, stdout, stderr } = await runPetstore(words === "" ? [] : words);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(new RegExp(`^Usage: ${`./petstore ${words}`.trim()} `));
    expect(stderr).not.toContain("error");
  },
);

const LIMIT = "It must be an integer from 1 to 1000000000";
const DATE = "It must be a UTC date such as 2027-01-31";
const PAST = "It must be a time in the past, such as 2026-11-19T12:00:00Z";
const PREVIEW = 'Use up to 40 of a-z, 0-9 and inner "-"';
const ID = "key_000000000000";
const SECRET = `pet_${"x".repeat(50)}`;
const CREATE = "keys create --name x --plan";

it.each([
  ["kyes list", "unknown command 'kyes' (Did you mean keys?); see ./petstore --help"],
  ["keys lst", "unknown command 'lst' (Did you mean list?); see ./petstore keys --help"],
  ["migrate --preview=", "It must name a preview, such as staging"],
  ["setup", "required option '--location' not specified; see ./petstore setup --help"],
  ["setup --location moon", "Allowed choices are weur, eeur"],
  ["deploy --url localhost:8787", "It must be the URL of a service"],
  ["preview Feature_1", PREVIEW],
  ["preview pr-1 --json --delete", "'--json' cannot be used with option '--delete'"],
  ["preview pr-1 --delete --dry-run", "'--delete' cannot be used with option '--dry-run'"],
  ["smoke http://localhost:9 --key pet_x", "unknown option '--key'"],
  ["usage --days 401", "It must be an integer from 1 to 400"],
  ["usage --sort busiest", "Allowed choices are admitted, refused, share"],
  ["status --backup-age 0", "It must be an integer from 1 to 87600"],
  ["restore --remote --yes", "add --timestamp TIME or --bookmark B"],
  ["restore --bookmark 0 --timestamp 2026-11-19", "cannot be used with"],
  ["restore --timestamp yesterday", PAST],
  ["restore --timestamp 2999-01-01", PAST],
  ["restore --bookmark 0 --yes", "Time Travel is for deployed databases"],
  ["restore --resume --dry-run", "'--resume' cannot be used"],
  ["restore --from --yes", "It must name a file"],
  ["restore --only pets --remote", "--only needs --from FILE"],
  ["backup scripts", `${resolve("scripts")} is a folder: name a new file in it`],
  ["backup petstore/x", `a part of the path ${resolve("petstore/x")} is a file, not a folder`],
  ["backup", "name a new FILE, or a folder with --dir"],
  ["backup x --keep 5", "--keep needs --dir DIR"],
  ["backup --dir scripts --keep 0", "It must be an integer from 1 to 100000"],
  ["backup --dir none", `there is no ${resolve("none")}`],
  ["keys list all", "Expected 0 arguments but got 1: all; see ./petstore keys list --help"],
  [
    "keys list --state gone",
    "Allowed choices are active, suspended, banned, read-only, expiring, in-grace, expired, revoked",
  ],
  ["keys list --search --json", "It looks like an option"],
  [`keys list --search ${SECRET}`, "keys find reads one from standard input"],
  ["keys list --persist-to x --remote", "cannot be used with option"],
  ["keys list --persist-to=", "It must name a folder"],
  ["keys list --persist-to petstore --quiet", `a part of the path ${resolve("petstore")} is a file`],
  ["keys create --name x", "add --name NAME and --plan PLAN, or --from FILE"],
  ["keys create --from x --plan free", "'--from <file>' cannot be used with option '--plan <plan>'"],
  ["keys create --from none.csv", `there is no ${resolve("none.csv")}`],
  [`keys create --name ${"x".repeat(256)} --plan free`, "It must be 1 to 255 characters"],
  ["keys create --name --plan free", "It looks like an option"],
  [`${CREATE} enterprise --per-day 5`, "enterprise needs --per-minute and --per-day"],
  [`${CREATE} enterprise --per-minute 5 --per-day 1000000001`, LIMIT],
  [`${CREATE} free --expires 2020-01-01`, "It must be in the future"],
  [`${CREATE} free --expires 2027-02-31`, DATE],
  [`${CREATE} free --expires 2027-01-31T24:00:00Z`, DATE],
  [`${CREATE} free --expires 2027-01-31T12:00:00`, DATE],
  [`${CREATE} free --expires 2027-01-31T12:00Z`, DATE],
  [`${CREATE} free --expires 9999-12-31T23:59:59-23:59`, DATE],
  [`keys rename ${ID} =A1`, "It looks like a formula"],
  [`keys rename ${ID} a\u2028b`, "It must have printable characters only, and has U+2028"],
  [`keys ref ${ID} =A1`, "It must be 1 to 64 visible ASCII characters, the first a letter or a digit"],
  [`keys ref ${ID} ${"x".repeat(65)}`, "It must be 1 to 64 visible ASCII characters"],
  [`keys ref ${ID} 4.71235E+15`, "It looks like a number that a spreadsheet has rounded"],
  [`keys note ${ID} ${"x".repeat(201)}`, "It must be 1 to 200 characters"],
  [`${CREATE} enterprise --per-minute 010 --per-day 50`, LIMIT],
  [`${CREATE} free --by ${SECRET}`, "It must not contain an API key"],
  [`keys revoke ${SECRET}`, "'pet_…' is invalid"],
  [`keys expire ${ID} nevr`, "2027-01-31T12:00:00Z, or never"],
  ["keys revoke key_'OR'1'='1'--", "It must be a public ID"],
  [`keys rotate ${ID} --grace 2592001`, "It must be an integer from 0 to 2592000"],
  [`keys suspend ${ID}`, "required option '--reason' not specified"],
  [`keys suspend ${ID} --reason --yes`, "It looks like an option"],
  ["keys log --since 2026-11-02 --until 2026-11-02", "--since must be before --until"],
  ["keys show -", "It must be a public ID"],
  ["keys revoke -", "standard input has no IDs"],
  [`keys plan ${ID} toString`, `Allowed choices are ${PLANS.join(", ")}`],
  [`keys plan ${ID} pro --per-day 5`, "are for enterprise only: pro has fixed limits"],
])("./petstore %s is refused with exit code 2 and one line: %s", async (line, problem) => {
  const { exitCode, stdout, stderr } = await runPetstore(line);
  expect([exitCode, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/^error: [^\n]+\n$/);
  expect(stderr).toContain(problem);
});

it("help after a group or before it is the help of its command", async () => {
  const { stdout } = await runPetstore("keys create --help");
  for (const line of ["keys help create", "help keys create"])
    expect(await runPetstore(line)).toMatchObject({ exitCode: 0, stdout, stderr: "" });
});

it.skipIf(process.platform !== "linux")("a folder where none can be made ends a command", async () => {
  const stderr = "error: no folder can be made in /proc\n";
  expect(await runPetstore("migrate --persist-to /proc/x --quiet")).toMatchObject({ exitCode: 2, stderr });
});

it("a command that gets an API key in an argument does nothing, doesn't repeat it, and says how to replace it", async () => {
  const id = newKeyId();
  const secret = newSecret(id);
  const problem = expect.stringMatching(
    new RegExp(
      `^error: the command line has an API key of ${id}, .* history now\\. \\.\\/petstore keys find, .*\\. .*\\n$`,
    ),
  );
  for (const line of [
    `smoke http://localhost:9/?key=${secret}&more`,
    `keys revoke ${secret}`,
    `keys list --search x${secret}y`,
    `keys --help ${secret}`,
  ]) {
    const outcome = await runPetstore(line);
    expect(outcome).toMatchObject({ exitCode: 2, stdout: "", stderr: problem });
    // All that is random in the key.
    expect(outcome.stderr).not.toContain(secret.slice(16, 24));
  }
});

it("a key in the arguments of npm is also in npm's log: the message says where", async () => {
  const env = { npm_lifecycle_event: "start", npm_config_cache: "/home/jo/.npm" };
  const { stderr } = await runPetstore(newSecret(newKeyId()), { env });
  expect(stderr).toContain("in your shell's history and in npm's log in /home/jo/.npm/_logs now. ");
});

describe("the databases", () => {
  const folder = join(tmpdir(), "Jo's pets");
  const none = `error: there is no database of keys in ${folder}: create it with ./petstore migrate --persist-to '${folder.replace("'", "'\\''")}'\n`;

  it.each([
    ["keys list", {}, "the local databases in .wrangler/state"],
    ["keys list", { PETSTORE_PERSIST_TO: folder }, `the local databases in ${folder}`],
    ["keys list --persist-to x", { PETSTORE_TARGET: "remote" }, `the local databases in ${resolve("x")}`],
    ["keys list --remote", { PETSTORE_TARGET: "local" }, "the production databases"],
    ["keys list", { PETSTORE_TARGET: "remote", PETSTORE_PERSIST_TO: folder }, "the production databases"],
    ["keys list", { PETSTORE_TARGET: "preview:x" }, "the databases that all previews share"],
    ["status", { PETSTORE_TARGET: "remote" }, "the production databases"],
    ["backup file", { PETSTORE_TARGET: "remote" }, "the production databases"],
    ["restore --resume", { PETSTORE_TARGET: "remote" }, "the production databases"],
  ])("./petstore %s with %o says that it uses %s", async (line, env, databases) => {
    vi.stubEnv("PETSTORE_PACKAGED_NODE", "Node is too old");
    onTestFinished(() => void vi.unstubAllEnvs());
    expect((await runPetstore(line, { env })).using).toBe(`Using ${databases}.\n`);
    expect(await runPetstore(`${line} --quiet`, { env })).toMatchObject({
      using: "",
      stderr: expect.stringMatching(/^error: .*\n$/),
    });
  });

  it.each([
    [{ PETSTORE_TARGET: "production" }, 'TARGET is "production": it must be local, remote, or preview:NAME'],
    [{ PETSTORE_PERSIST_TO: "" }, 'PERSIST_TO is "": it must name a folder'],
  ])("of the variable in %o are none", async (env, problem) => {
    const stderr = `error: PETSTORE_${problem}\n`;
    expect(await runPetstore("keys list", { env })).toMatchObject({ exitCode: 2, using: "", stderr });
  });

  it("a missing one is not created; the line that does is quoted, with the options that chose it", async () => {
    const missing = await runPetstore("keys list", { env: { PETSTORE_PERSIST_TO: folder } });
    expect(missing).toMatchObject({ exitCode: 1, stderr: none });
    expect(existsSync(folder)).toBe(false);
  });

  it("are named in lines to paste in another folder, too", async () => {
    vi.stubEnv("INIT_CWD", tmpdir());
    onTestFinished(() => void vi.unstubAllEnvs());
    const { using, stderr } = await runPetstore("keys list");
    expect(using).toBe(`Using the local databases in ${resolve(".wrangler/state")}.\n`);
    expect(stderr).toMatch(`create it with ${PROJECT}/petstore migrate\n`);
  });
});

/** Those that may need a credential. */
const ON_CLOUDFLARE = [...COMMANDS].flatMap(([words, program]) => {
  const { options } = program.build("", "", IO);
  return options.some(({ long }) => /^--(remote|preview|allow-packaged-node)$/.test(`${long}`))
    ? [words]
    : [];
});

it.each(ON_CLOUDFLARE)(
  "./petstore %s refuses the Node of a package before it reads a credential",
  async (words) => {
    vi.stubEnv("PETSTORE_PACKAGED_NODE", "Node is too old");
    onTestFinished(() => void vi.unstubAllEnvs());
    const { stdout } = await runPetstore(`${words} --help`);
    // An example that does something, on a deployed database if there is a choice.
    const example = stdout
      .split("\n")
      .findLast((line) => line.startsWith("  ./petstore ") && !/--dry-run|--persist-to|[<>]/.test(line));
    const isChosen = /--remote|--preview/.test(`${example}`) || !stdout.includes(" --remote ");
    const line =
      example
        ?.match(/"[^"]*"|\S+/g)
        ?.map((word) => word.replaceAll('"', ""))
        .slice(1) ?? [];
    const input = { piped: newSecret(newKeyId()) };
    const { exitCode, stderr } = await runPetstore(isChosen ? line : [...line, "--remote"], input);
    const problem = expect.stringContaining("Node is too old, or add --allow-packaged-node to let");
    expect([exitCode, stderr]).toEqual([1, problem]);
  },
);
