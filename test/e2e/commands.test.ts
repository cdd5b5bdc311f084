// What every script of package.json has in common: help without side effects, wrong usage that exits with 2, and options that npm
// took for itself.

import { readFileSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { PassThrough } from "node:stream";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Define, Io } from "../../scripts/lib/command.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { npmRun } from "../support/e2e/petstore.ts";

const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };

const PROJECT = resolve();

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

/** Makes an empty folder the current one until the end of the test. */
async function enterEmptyFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  process.chdir(folder);
  onTestFinished(() => {
    process.chdir(PROJECT);
    return rm(folder, { recursive: true });
  });
  return folder;
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
    const folder = await enterEmptyFolder();
    const { exitCode, stdout, stderr } = await run(script, ["--help"]);
    expect([exitCode, stderr, await readdir(folder)]).toEqual([0, "", []]);
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

it("suggests the right option for a typo", async () => {
  expect((await read("migrate", ["--remot"])).stderr).toContain("(Did you mean --remote?)");
});

it.each([
  ["crash", ["--rounds", "0"]],
  ["soak", ["--minutes", "0x10"]],
  ["soak", ["--keys", "201"]],
  ["fuzz", ["--url", "localhost"]],
  ["fuzz", ["--url", "http://localhost:4"]],
  ["fuzz", ["--path", "0:0"]],
  ["bench", ["--rounds", "many"]],
  ["bench:geo", ["--seconds", "1.5"]],
  ["start", ["--port", "65536"]],
  ["start", ["--persist-to", ""]],
  ["check", ["stlye"]],
])("npm run %s refuses %j", async (script, args) => {
  const { exitCode, stdout, stderr } = await run(script, args);
  expect([exitCode, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/^error: .*\n$/);
});

it("npm test hands its arguments to the test runner, whose failure is npm's", async () => {
  const { exitCode, stdout, stderr } = await npmRun("test", ["--project", "unit", "test/unit/none.test.ts"]);
  expect([exitCode, stdout]).toEqual([1, expect.stringMatching(/^0 passed, 0 failed$/m)]);
  expect(stderr).toContain("none.test.ts");
});
