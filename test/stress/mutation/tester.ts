// A process with a persistent vitest: it gets a test file and mutants, runs them, and reports the result of each test. A separate
// process can be ended when a mutant hangs.

import { BroadcastChannel } from "node:worker_threads";
import { createVitest, type Reporter, type TestCase, type TestSuite, type Vitest } from "vitest/node";
import config from "../../../vitest.config.ts";
import type { Order } from "./inside.ts";
import { loadMutants } from "./plugin.ts";
import { ROOT } from "./root.ts";

/** What the process is told: once what to load, then again and again what to run. */
export type Command =
  | { mutated: Record<string, string> }
  | { project: "worker" | "unit" | "simulation"; file: string; order: Order };

/** What it answers. `error` is why a test failed; absent if it passed. */
export type News =
  | { kind: "begin"; mutant: number }
  | {
      kind: "test";
      mutant: number;
      name: string;
      error?: string;
      durationMs: number;
      reached: number[];
      calls: number;
    }
  | { kind: "end"; errors: string[] };

/** Of the lives of a key. They are the same ones for each mutant. */
const SIMULATION_RUNS = 100;
const EXHAUSTIVE_DEPTH = 3;

/** Ends what waits forever. */
const TIMEOUT_MS = { unit: 4_000, simulation: 4_000, worker: 10_000 };

const reporter: Reporter = {
  onTestCaseResult(test) {
    const { state, errors = [] } = test.result();
    if (state === "skipped" || state === "pending") return;
    const { duration = 0 } = test.diagnostic() ?? {};
    const { mutant, name } = placeOf(test);
    const error = state === "failed" ? (errors[0]?.message ?? "failed") : undefined;
    const { reached = [], calls = 0 } = test.meta();
    send({
      kind: "test",
      mutant,
      name,
      durationMs: duration,
      reached,
      calls,
      ...(error !== undefined && { error }),
    });
  },
  onTestSuiteResult(suite) {
    const [error] = suite.errors();
    if (error !== undefined) {
      send({ kind: "test", ...placeOf(suite), error: error.message, durationMs: 0, reached: [], calls: 0 });
    }
  },
};

let starting: Promise<Vitest>;

new BroadcastChannel("mutant begun").onmessage = (message: unknown) => {
  send({ kind: "begin", mutant: (message as { data: number }).data });
};

process.on("message", async (command: Command) => {
  if ("mutated" in command) starting = start(command.mutated);
  else send({ kind: "end", errors: await run(await starting, command) });
});

async function start(mutated: Record<string, string>): Promise<Vitest> {
  const named = (name: string) =>
    config.test?.projects?.find((each) => (each as { test: { name: string } }).test.name === name);
  const projects = [
    projectOf(named("worker"), mutated, "worker", {}),
    projectOf(named("simulation"), mutated, "simulation", {
      simulationRuns: SIMULATION_RUNS,
      exhaustiveDepth: EXHAUSTIVE_DEPTH,
      simulationSeed: null,
    }),
    projectOf(named("unit"), mutated, "unit", {}),
  ];
  return createVitest("test", {
    root: ROOT,
    config: false,
    watch: false,
    reporters: [reporter],
    maxWorkers: 1,
    projects: projects as never,
  });
}

/** A project of the configuration, with mutants. */
function projectOf(
  project: unknown,
  mutated: Record<string, string>,
  name: keyof typeof TIMEOUT_MS,
  provide: object,
) {
  const { plugins = [], test = {} } = project as { plugins?: unknown[]; test?: { setupFiles?: string[] } };
  return {
    root: ROOT,
    plugins: [loadMutants(mutated), ...plugins],
    test: {
      ...test,
      name,
      provide,
      setupFiles: ["./test/stress/mutation/inside.ts", ...(test.setupFiles ?? [])],
      // In Node a thread can say which mutant keeps it busy.
      ...(name !== "worker" && { pool: "threads" }),
      testTimeout: TIMEOUT_MS[name],
      hookTimeout: TIMEOUT_MS[name],
    },
  };
}

/** Runs a test file. Returns what went wrong outside of its tests. */
async function run(
  vitest: Vitest,
  { project: name, file, order }: Extract<Command, { file: string }>,
): Promise<string[]> {
  const project = vitest.projects.find((each) => each.name === name);
  if (project === undefined) return [`no project ${name}`];
  project.provide("order", order);
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications([
    project.createSpecification(`${ROOT}/${file}`),
  ]);
  const module = testModules.find(
    (each) => each.moduleId === `${ROOT}/${file}` && each.project.name === name,
  );
  const errors = [...(module?.errors() ?? []), ...unhandledErrors] as { message?: string }[];
  return errors.map(({ message = "" }) => message);
}

function placeOf(task: TestCase | TestSuite): { mutant: number; name: string } {
  const [mutant = "", ...names] = task.fullName.split(" > ");
  return { mutant: Number(mutant.replace("mutant ", "")), name: names.join(" > ") };
}

function send(news: News): void {
  process.send?.(news);
}
