// `unit` and `simulation` run in Node, the simulation on virtual time. `worker` runs inside workerd, with real D1 and
// real Durable Objects. `e2e` runs the commands and uses the service over a socket or in a browser.

import "./test/support/require-node.ts";
import { availableParallelism } from "node:os";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import ClosingLine from "./test/support/closing-line.ts";
import { HANG_MS, WAIT_MS } from "./test/support/hang.ts";
import { serveValidator } from "./test/support/openapi-validator.ts";
import { SEED } from "./test/support/seed.ts";
import { IN_NODE, UNIT } from "./vitest.unit.config.ts";

declare module "vitest" {
  interface ProvidedContext {
    simulationRuns: number;
    exhaustiveDepth: number;
    /** The one life that is wanted, or null. */
    simulationSeed: number | null;
  }
}

/** Real D1 and real Durable Objects, and a validator in Node that holds each answer to the document. */
function insideWorkerd() {
  return cloudflareTest(async () => ({
    wrangler: { configPath: "./wrangler.toml" },
    miniflare: {
      bindings: {
        PETS_MIGRATIONS: await readD1Migrations("migrations/pets"),
        KEYS_MIGRATIONS: await readD1Migrations("migrations/keys"),
      },
      serviceBindings: { OPENAPI_VALIDATOR: serveValidator },
      // Another database of pets, for a replica that is behind.
      d1Databases: { REPLICA: "replica" },
    },
  }));
}

const IN_WORKERD = { setupFiles: ["./test/support/worker/setup.ts"] };

/** node:sqlite, which is experimental in Node 22, warns. */
const QUIET = ["--disable-warning=ExperimentalWarning"];

const { SIMULATION_RUNS = 200, SIMULATION_SEED, EXHAUSTIVE_DEPTH = 3 } = process.env;

export default defineConfig({
  test: {
    reporters: ["default", new ClosingLine()],
    // Files don't depend on each other's order, and the largest come first: else one runs alone in the end.
    sequence: { shuffle: { tests: true }, seed: SEED },
    // One more than processors, because some tests wait for a service or a page. On two processors, two more were slower.
    maxWorkers: availableParallelism() + 1,
    testTimeout: HANG_MS,
    hookTimeout: HANG_MS,
    teardownTimeout: HANG_MS,
    expect: { poll: { timeout: WAIT_MS } },
    projects: [
      { extends: true, test: { ...UNIT, execArgv: QUIET } },
      {
        extends: true,
        plugins: [insideWorkerd()],
        test: {
          name: "worker",
          include: ["test/worker/**/*.test.ts"],
          ...IN_WORKERD,
          // One runtime for all files: vitest gives each only 60 s to start, which several at once exceed on a busy machine.
          isolate: false,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          globalSetup: "./test/support/e2e/global-setup.ts",
          setupFiles: ["./test/support/e2e/away-from-midnight.ts"],
          // Of node:sqlite. scripts/run.mjs has the same option.
          execArgv: QUIET,
        },
      },
      {
        extends: true,
        test: {
          name: "simulation",
          include: ["test/simulation/**/*.test.ts"],
          isolate: false,
          ...IN_NODE,
          execArgv: QUIET,
          provide: {
            simulationRuns: Number(SIMULATION_RUNS),
            exhaustiveDepth: Number(EXHAUSTIVE_DEPTH),
            simulationSeed: SIMULATION_SEED === undefined ? null : Number(SIMULATION_SEED),
          },
        },
      },
    ],
  },
});
