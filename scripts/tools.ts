// The npm scripts that run another tool: the test runner, the formatter, compilers and linters. The name of the running script,
// which npm sets, selects one. Arguments are forwarded to its last step.

import { once } from "node:events";
import { Argument } from "@commander-js/extra-typings";
import { type Define, newCommand, ReportedError } from "./lib/command.ts";
import { spawnScript } from "./lib/script.ts";

const BIOME = "node_modules/@biomejs/biome/bin/biome";
const TSC = "node_modules/@typescript/native/bin/tsc";
const WRANGLER = "node_modules/wrangler/bin/wrangler.js";

/** By the name of the script: a summary, the arguments of an example, and steps, each of which is a command line of Node. */
const TOOLS: Record<string, [summary: string, example: string, ...steps: string[]]> = {
  test: [
    "Runs the tests, by default all. npx vitest --help lists further options.",
    'test/worker/pages.test.ts -t "next link"',
    "node_modules/vitest/vitest.mjs run",
  ],
  mutation: [
    "Changes the modules that run in Node, one operator at a time, and expects a test to fail. It takes a quarter of an hour.",
    "--mutate src/rate-limit/windows.ts",
    "node_modules/@stryker-mutator/core/bin/stryker.js run",
  ],
  format: ["Formats files with Biome, by default all.", "src/pets", `${BIOME} check --write`],
  types: [
    "Writes worker-configuration.d.ts.",
    "--strict-vars=false",
    `${WRANGLER} types --include-runtime=false`,
  ],
  "check:style": ["Checks formatting and lint rules.", "src/pets", `${BIOME} check --error-on-warnings`],
  "check:env": ["Checks worker-configuration.d.ts.", "--strict-vars=false", `${WRANGLER} types --check`],
  "check:types": [
    "Checks all TypeScript. Arguments apply to the last project, bench/baselines.",
    "--pretty false",
    TSC,
    `${TSC} --project src/site`,
    "bench/measure/packages.ts",
    `${TSC} --project bench/baselines`,
  ],
  "check:client": [
    "Checks that the types of the client package are those of the document, and its code.",
    "--pretty false",
    "scripts/main.ts scripts/client.ts --check",
    `${TSC} --project client`,
  ],
  "check:document": [
    "Builds the OpenAPI document, and checks it with Redocly.",
    "--format json",
    "scripts/main.ts scripts/build.ts",
    "node_modules/@redocly/cli/bin/cli.js lint dist/openapi.json",
  ],
};

const CHECKS = Object.keys(TOOLS).flatMap((script) => script.match(/(?<=^check:).*/) ?? []);

const define: Define = (io) => {
  const script = io.env.npm_lifecycle_event ?? "";
  if (TOOLS[script] === undefined) {
    return newCommand("npm run check", "Runs all checks, or one of them.", "", "style")
      .addArgument(new Argument("[check]").choices(CHECKS))
      .action(async (only) => {
        for (const check of only === undefined ? CHECKS : [only]) {
          io.note(`npm run check:${check}`);
          await run(`check:${check}`);
        }
      });
  }
  const [summary, example] = TOOLS[script];
  const command = newCommand(script === "test" ? "npm test" : `npm run ${script}`, summary, "", example);
  if (script === "test")
    command.option("--project <name>", "unit, worker, simulation or e2e; may be repeated", projects);
  return command
    .argument("[arguments...]", "for the tool")
    .allowUnknownOption()
    .action((args, options) => run(script, [...Object.values<string[]>(options).flat(), ...args]));
};

export default define;

function projects(name: string, before: string[] = []): string[] {
  return [...before, "--project", name];
}

async function run(script: string, args: string[] = []): Promise<void> {
  const [, , ...steps] = TOOLS[script] ?? ["", ""];
  for (const [index, step] of steps.entries()) {
    const forwarded = index === steps.length - 1 ? args : [];
    const [code] = await once(spawnScript([...step.split(" "), ...forwarded]), "exit");
    if (code !== 0) throw new ReportedError(step);
  }
}
