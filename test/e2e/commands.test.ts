// What every script of package.json has in common: help without side effects, wrong usage that exits with 2, and options that npm
// took for itself.

import { readFileSync } from "node:fs";
import { mkdtemp, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { PassThrough, Writable } from "node:stream";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Define, Io, runCommand } from "../../scripts/lib/command.ts";
import { PLANS } from "../../src/keys/plans.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { npmRun, runProcess } from "../support/e2e/petstore.ts";

const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };

const PROJECT = resolve();

const ID = "key_000000000000";

/** The scripts that forward unknown options to a tool, which refuses them. */
const FORWARDING = /^(start|dev|test|mutation|format|types|check:.*)$/;

/** Runs the command of a script. */
async function run(script: string, args: string[]) {
  return runCommandInProcess(await defineOf(script), args, { env: { npm_lifecycle_event: script } });
}

/** Reads arguments like a script's command, but does not act on them. `taken` are options that npm took for itself. */
async function read(script: string, args: string[], taken: NodeJS.ProcessEnv = {}) {
  const define = await defineOf(script);
  const inactive: Define = (io) => {
    const command = define(io);
    for (const each of [command, ...command.commands]) each.action(() => {});
    return command;
  };
  return runCommandInProcess(inactive, args, { env: { npm_lifecycle_event: script, ...taken } });
}

async function defineOf(script: string): Promise<Define> {
  const [, file = ""] =
    scripts[script]?.match(/^node scripts\/run\.mjs (?:--\S+ )?scripts\/main\.ts (\S+)$/) ?? [];
  return (await import(join(PROJECT, file))).default;
}

/** A script's command and its subcommands, each with the words that select it. */
async function commandsOf(script: string): Promise<{ command: CommandUnknownOpts; words: string[] }[]> {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const env = { npm_lifecycle_event: script };
  const root = (await defineOf(script))(new Io({ stdin, stdout, stderr, env }));
  const subcommands = root.commands.map((command) => ({ command, words: [command.name()] }));
  return [{ command: root, words: [] }, ...subcommands];
}

describe.each(Object.keys(scripts))("npm run %s", (script) => {
  it("has help with a usage line and two examples that name it, which changes no file", async () => {
    const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
    process.chdir(folder);
    onTestFinished(() => {
      process.chdir(PROJECT);
      // Fails if the folder is not empty.
      return rmdir(folder);
    });
    const { exitCode, stdout, stderr } = await run(script, ["--help"]);
    expect([exitCode, stderr]).toEqual([0, ""]);
    const usual = script === "dev" ? "start" : script;
    const name = ["start", "test"].includes(usual) ? `npm ${usual}` : `npm run ${usual}`;
    expect(stdout).toContain(`Usage: ${name} -- `);
    const [, examples = ""] = stdout.split("\nExamples:\n");
    const lines = examples.trimEnd().split("\n");
    expect(lines.length).toBeGreaterThanOrEqual(2);
    for (const line of lines) expect(line).toMatch(new RegExp(`^  (.*\\| )?${name}( -- |$| >)`));
  });

  it.skipIf(FORWARDING.test(script))("refuses an unknown option", async () => {
    for (const { command, words } of await commandsOf(script)) {
      if (command.options.some(({ mandatory }) => mandatory)) continue;
      const { exitCode, stdout, stderr } = await read(script, [...words, "--nonsense"]);
      expect([exitCode, stdout]).toEqual([2, ""]);
      const help = ["npm", "run", script, "--", ...words, "--help"].join(" ");
      expect(stderr).toBe(`error: unknown option '--nonsense'; see ${help}\n`);
    }
  });

  it("refuses every option that npm took for itself, with the line to type", async () => {
    const commands = await commandsOf(script);
    const all = commands.flatMap(({ command, words }) =>
      command.options.map(({ long }) => ({ long, words })),
    );
    for (const { long, words } of all) {
      const name = long ?? "";
      const taken = { [`npm_config_${name.slice(2).replaceAll("-", "_")}`]: "true" };
      const { exitCode, stdout, stderr } = await read(script, words, taken);
      expect([exitCode, stdout]).toEqual([2, ""]);
      expect(stderr).toMatch(`error: npm took ${name} for itself, because "--" is missing: type npm `);
      expect(stderr).toMatch(new RegExp(` -- .*${name}.*\n$`));
    }
  });
});

const LIMIT = "It must be an integer from 1 to 1000000000";
const DATE = "It must be a UTC date such as 2027-01-31";
const PAST = "It must be a time in the past, such as 2026-11-19T12:00:00Z";
const PREVIEW = 'Use up to 40 of a-z, 0-9 and inner "-"';
const SECRET = `pet_${"x".repeat(50)}`;
const CREATE = "keys create --name x --plan";

it.each([
  ["start --port 65536", "It must be an integer from 0 to 65535"],
  ["start --persist-to=", "It must name a folder"],
  ["migrate --preview=", "It must name a preview, such as staging"],
  ["setup", "required option '--location <location>' not specified"],
  ["deploy --url localhost:8787", "It must be the URL of a service"],
  ["preview Feature_1", PREVIEW],
  ["preview pr-1- --delete --yes", PREVIEW],
  ["preview pr-1 --json --delete", "'--json' cannot be used with option '--delete'"],
  ["preview pr-1 --delete --dry-run", "'--delete' cannot be used with option '--dry-run'"],
  ["smoke https://petstore.example/shop", "It must be the URL of a service"],
  ["smoke http://localhost:9", "no key: npm run smoke -- URL --key KEY, or set PETSTORE_KEY"],
  ["smoke http://localhost:9 --key pet_x", "not an API key"],
  ["usage --days 8", "It must be an integer from 1 to 7"],
  ["restore --remote --yes", "add --timestamp TIME or --bookmark B"],
  ["restore --bookmark 0 --timestamp 2026-11-19", "cannot be used with"],
  ["restore --timestamp yesterday", PAST],
  ["restore --timestamp 2999-01-01", PAST],
  ["restore --bookmark 0 --yes", "add --remote or --preview NAME"],
  ["restore --bookmark 0 --dry-run --yes", "'--yes' cannot be used with"],
  ["restore --resume --yes", "add --remote or --preview NAME"],
  ["restore --resume --dry-run", "'--resume' cannot be used"],
  ["keys lst", "unknown command 'lst' (Did you mean list?)"],
  ["keys list all", 'got 1: all (is "--" missing before the options?); see npm run keys -- list --help'],
  ["keys list --state gone", "Allowed choices are active, banned, expiring, in-grace, expired, revoked"],
  ["keys list --json --json-lines", "cannot be used with option '--json'"],
  ["keys list --search --json", "It looks like an option"],
  ["keys list --persist-to x --remote", "cannot be used with option"],
  ["keys list --persist-to x --preview staging", "cannot be used with option"],
  ["keys create --plan free", "required option '--name <name>' not specified"],
  ["keys create --name= --plan free", "It must be 1 to 255 characters"],
  [`keys create --name ${"x".repeat(256)} --plan free`, "It must be 1 to 255 characters"],
  ["keys create --name --plan free", "It must be a name, and looks like an option"],
  [`${CREATE} enterprise --per-day 5`, "enterprise needs --per-minute and --per-day"],
  [`${CREATE} enterprise --per-minute 0 --per-day 5`, LIMIT],
  [`${CREATE} enterprise --per-minute 5 --per-day 1000000001`, LIMIT],
  [`${CREATE} free --expires 2020-01-01`, "It must be in the future"],
  [`${CREATE} free --expires 2027-02-31`, DATE],
  [`${CREATE} free --expires 2027-01-31T24:00:00Z`, DATE],
  [`${CREATE} free --expires 2027-01-31T12:00:00`, DATE],
  [`${CREATE} free --expires 2027-01-31T12:00Z`, DATE],
  [`${CREATE} free --expires 9999-12-31T23:59:59-23:59`, DATE],
  [`${CREATE} free --by=`, "It must be 1 to 100 characters"],
  [`${CREATE} free --by ${SECRET}`, "and no API key"],
  [`keys rename ${ID} ${SECRET}`, "It must not contain an API key"],
  [`keys expire ${ID} nevr`, "2027-01-31T12:00:00Z, or never"],
  ["keys revoke demo", "It must be a public ID such as key_0123456789Ab, as npm run keys -- list shows it"],
  ["keys revoke key_'OR'1'='1'--", "It must be a public ID"],
  [`keys rotate ${ID} --grace 2592001`, "It must be an integer from 0 to 2592000"],
  [`keys plan ${ID} toString`, `Allowed choices are ${PLANS.join(", ")}`],
  [`keys plan ${ID} pro --per-day 5`, "are for enterprise only: pro has fixed limits"],
  ["soak --minutes 0x10", "It must be an integer from 1"],
  ["soak --keys 201", "It must be an integer from 1"],
  ["fuzz --url localhost", "It must be"],
  ["fuzz --url http://localhost:4", "--url and --key need each other"],
  ["fuzz --path 0:0", "--path needs --seed"],
])("npm run %s is refused with exit code 2 and one line: %s", async (line, problem) => {
  const [script = "", ...args] = line.split(" ");
  const { exitCode, stdout, stderr } = await run(script, args);
  expect([exitCode, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/^error: [^\n]+\n$/);
  expect(stderr).toContain(problem);
});

it.each([
  ["keys list", { npm_config_remtoe: "true" }, "npm run keys -- list --remote"],
  ["keys list", { npm_config_stat: "banned" }, "npm run keys -- list --state banned"],
  [`keys rotate ${ID} 60`, { npm_config_grace: "true" }, `npm run keys -- rotate ${ID} --grace <seconds>`],
  [`keys rotate 60 ${ID}`, { npm_config_grace: "true" }, "npm run keys -- rotate <id> --grace <seconds>"],
  ["keys create Jo", { npm_config_name: "true" }, "npm run keys -- create --name <name> --plan <plan>"],
  ["keys log 5", { npm_config_limit: "true" }, "npm run keys -- log --limit <n>"],
])(
  "npm run %s without -- before the options %j is refused with the line to type",
  async (line, taken, typed) => {
    const [script = "", ...args] = line.split(" ");
    const { exitCode, stderr } = await read(script, args, taken);
    expect([exitCode, stderr]).toEqual([2, expect.stringMatching(/^error: npm took [^\n]+\n$/)]);
    expect(stderr).toContain(`type ${typed}\n`);
  },
);

it("npm itself takes options without --, also --plan, --by and a mistyped --count", async () => {
  const words = ["create", "Jo", "--plan", "free", "--by=Ann", "--coun=3"];
  const { exitCode, stdout, stderr } = await runProcess("npm", ["run", "--silent", "keys", ...words]);
  expect([exitCode, stdout]).toEqual([2, ""]);
  const options = "--plan <plan> --count 3 --by <name> --name <name>";
  expect(stderr).toContain(`because "--" is missing: type npm run keys -- create ${options}\n`);
});

it("npm run keys shows the help without a command", async () => {
  const { exitCode, stdout, stderr } = await run("keys", []);
  expect([exitCode, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/^Usage: npm run keys -- /);
  expect(stderr).not.toContain("error");
});

it("a command continues if the reader of its output stops", async () => {
  // An "error" event without a listener would end the process, and so the tests.
  const stdout = new Writable({ write: (_chunk, _encoding, done) => done(new Error("EPIPE")) });
  const streams = { stdin: new PassThrough(), stdout, stderr: new PassThrough(), env: {} };
  expect(await runCommand(await defineOf("setup"), ["--help"], streams)).toBe(0);
  expect(stdout.errored?.message).toBe("EPIPE");
});

it("npm test hands its arguments to the test runner, whose failure is npm's", async () => {
  const { exitCode, stdout, stderr } = await npmRun("test", ["--project", "unit", "test/unit/none.test.ts"]);
  expect([exitCode, stdout]).toEqual([1, expect.stringMatching(/^0 passed, 0 failed$/m)]);
  expect(stderr).toContain("none.test.ts");
});
