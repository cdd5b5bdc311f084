// What every script of package.json has in common: help without side effects, wrong usage that exits with 2, and options that npm
// took for itself.

import { readFileSync } from "node:fs";
import { cp, mkdtemp, readdir, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { PassThrough } from "node:stream";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Define, Io } from "../../scripts/lib/command.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { npmRun, runProcess } from "../support/e2e/petstore.ts";

const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };

/** The scripts that forward unknown options to a tool, which refuses them. */
const FORWARDING = /^(start|dev|test|format|types|check:.*)$/;

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
  return (await import(resolve(file))).default;
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
  it("has help with a usage line and two examples that name it", async () => {
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

it.each([
  ["crash", "--roundz", "--rounds"],
  ["soak", "--minute", "--minutes"],
  ["migrate", "--remot", "--remote"],
])("npm run %s suggests the right option for %s", async (script, typo, right) => {
  expect((await read(script, [typo])).stderr).toContain(`(Did you mean ${right}?)`);
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

describe("through npm", () => {
  it("help of all scripts changes no file", async () => {
    // In a copy, because other tests write files here.
    const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    for (const name of [
      "src",
      "scripts",
      "test",
      "bench",
      "package.json",
      "package-lock.json",
      "wrangler.toml",
    ]) {
      const filter = (path: string) => basename(path) !== "node_modules";
      await cp(name, join(folder, name), { recursive: true, filter });
    }
    await symlink(resolve("node_modules"), join(folder, "node_modules"));
    const files = async () => (await readdir(folder, { recursive: true })).sort();
    const before = await files();
    // One after the other: all at once would be a hundred processes.
    for (const script of Object.keys(scripts)) {
      const help = await runProcess("npm", ["run", "--silent", script, "--", "--help"], {}, folder);
      expect([script, help.exitCode]).toEqual([script, 0]);
    }
    expect(await files()).toEqual(before);
  });

  it("an option without -- is refused, and --silent leaves standard output to the command", async () => {
    const swallowed = await runProcess("npm", ["run", "--silent", "crash", "--rounds=3"]);
    expect(swallowed).toEqual({
      exitCode: 2,
      stdout: "",
      stderr:
        'error: npm took --rounds for itself, because "--" is missing: type npm run crash -- --rounds 3\n',
    });
    const help = await npmRun("crash", ["--help"]);
    expect(help.stdout).toMatch(/^Usage: /);
  });

  it("a misspelled script gets a suggestion, and npm run lists the scripts", async () => {
    const { exitCode, stderr } = await runProcess("npm", ["run", "deplyo"]);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("npm run deploy")]);
    expect((await runProcess("npm", ["run"])).stdout).toContain("scripts/deploy.ts");
  });

  it("arguments reach the tool, and its failure is npm's", async () => {
    const words = ["--project", "unit", "test/unit/quota.test.ts", "-t", "no such name"];
    const found = await npmRun("test", words);
    expect([found.exitCode, found.stdout]).toEqual([
      0,
      expect.stringMatching(/\n0 passed, 0 failed, \d+ skipped\n$/),
    ]);
    expect((await npmRun("test", ["--projct", "unit"])).exitCode).toBe(1);
  });
});
