// The npm scripts that run another tool: the test runner, the formatter, compilers and linters. The name of the running script,
// which npm sets, selects one. Arguments are forwarded to its last step.

import { Argument } from "@commander-js/extra-typings";
import { type Define, newCommand, ReportedError } from "./lib/command.ts";
import { hasSucceeded, spawnScript } from "./lib/script.ts";

interface Tool {
  summary: string;
  /** The arguments of an example. */
  example: string;
  /** Arguments of Node, for one process after the other. */
  steps: string[][];
}

const BIOME = "node_modules/@biomejs/biome/bin/biome";
const TSC = "node_modules/@typescript/native/bin/tsc";
const WRANGLER = "node_modules/wrangler/bin/wrangler.js";

const TOOLS: Record<string, Tool> = {
  test: {
    summary: "Runs the tests, by default all. npx vitest --help lists further options.",
    example: 'test/worker/pages.test.ts -t "next link"',
    steps: [["node_modules/vitest/vitest.mjs", "run"]],
  },
  format: {
    summary: "Formats files and applies safe fixes with Biome, by default to all.",
    example: "src/pets",
    steps: [[BIOME, "check", "--write"]],
  },
  types: {
    summary: "Writes worker-configuration.d.ts. Run it after a change of wrangler.toml.",
    example: "--config wrangler.toml",
    steps: [[WRANGLER, "types", "--include-runtime=false"]],
  },
  "check:style": {
    summary: "Checks formatting and lint rules with Biome, by default of all files.",
    example: "src/pets",
    steps: [[BIOME, "check", "--error-on-warnings"]],
  },
  "check:env": {
    summary: "Checks that worker-configuration.d.ts fits wrangler.toml.",
    example: "--config wrangler.toml",
    steps: [[WRANGLER, "types", "--check"]],
  },
  "check:types": {
    summary: "Checks all TypeScript. Arguments apply to the last project, bench/baselines.",
    example: "--pretty false",
    steps: [[TSC], [TSC, "-p", "src/site"], ["bench/measure/packages.ts"], [TSC, "-p", "bench/baselines"]],
  },
  "check:document": {
    summary: "Builds the OpenAPI document, and checks it with Redocly.",
    example: "--format json",
    steps: [
      ["scripts/main.ts", "scripts/build.ts"],
      ["node_modules/@redocly/cli/bin/cli.js", "lint", "dist/openapi.json"],
    ],
  },
};

const define: Define = (io) => {
  const script = io.env.npm_lifecycle_event ?? "";
  const tool = TOOLS[script];
  return tool === undefined ? allChecks((line) => io.note(line)) : oneTool(script, tool);
};

export default define;

function allChecks(note: (line: string) => void) {
  const names = Object.keys(TOOLS).flatMap((script) => script.match(/(?<=^check:).*/) ?? []);
  return newCommand("npm run check", "Runs all checks, or one of them.", "", "style")
    .addArgument(new Argument("[check]").choices(names))
    .action(async (only) => {
      for (const name of only === undefined ? names : [only]) {
        note(`npm run check:${name}`);
        await run(TOOLS[`check:${name}`]?.steps ?? []);
      }
    });
}

function oneTool(script: string, { summary, example, steps }: Tool) {
  const command = newCommand(script === "test" ? "npm test" : `npm run ${script}`, summary, "", example)
    .argument("[arguments...]", "for the tool")
    .allowUnknownOption();
  if (script === "test")
    command.option("--project <name>", "unit, worker, plain, simulation or e2e; may be repeated", projects);
  return command.action((args, options) => run(steps, [...Object.values<string[]>(options).flat(), ...args]));
}

function projects(name: string, before: string[] = []): string[] {
  return [...before, "--project", name];
}

async function run(steps: string[][], args: string[] = []): Promise<void> {
  for (const step of steps) {
    const all = step === steps.at(-1) ? [...step, ...args] : step;
    if (!(await hasSucceeded(spawnScript(all)))) throw new ReportedError(all.join(" "));
  }
}
