// `worker` and `plain` run inside workerd, on real D1 and real Durable Objects; `outside` runs in Node and uses the service
// as a newcomer does, over a socket; `simulation` runs in Node, on a time of its own.

import { availableParallelism } from "node:os";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import ClosingLine from "./test/closing-line.ts";
import { serveUndocumented } from "./test/documented.ts";
import { switchOff } from "./test/switch-off.ts";

declare module "vitest" {
  interface ProvidedContext {
    simulationRuns: number;
    exhaustiveDepth: number;
    /** The one run that is wanted, or null. */
    simulationSeed: number | null;
  }
}

/** Real D1 and real Durable Objects, and a validator in Node that holds each answer to the document. */
function insideWorkerd() {
  return cloudflareTest(async () => ({
    wrangler: { configPath: "./wrangler.toml" },
    miniflare: {
      bindings: { TEST_MIGRATIONS: await readD1Migrations("migrations") },
      serviceBindings: { UNDOCUMENTED: serveUndocumented },
      // A second database, for a replica that is behind.
      d1Databases: { REPLICA: "replica" },
    },
  }));
}

const INSIDE = { setupFiles: ["./test/setup.ts"] };

/** In Node, because it needs nothing of the runtime and is a matter of speed. */
const SIMULATION = "test/simulation/**";

const { SIMULATION_RUNS = 1_000, SIMULATION_SEED, EXHAUSTIVE_DEPTH = 4 } = process.env;

const PLAIN = ["bad-input", "contract", "faults", "idempotency", "int64", "keys", "pages", "usage"];

export default defineConfig({
  test: {
    reporters: ["default", new ClosingLine()],
    // Files share nothing, so their order is no matter, and the largest come first: else one runs alone in the end.
    sequence: { shuffle: { tests: true } },
    // One more than processors, because some tests wait for a service or a page. On two processors, two more were slower.
    maxWorkers: availableParallelism() + 1,
    // Only to end what hangs. It is long because machines that run tests can be slow.
    testTimeout: 90_000,
    hookTimeout: 120_000,
    projects: [
      {
        extends: true,
        plugins: [insideWorkerd()],
        test: {
          name: "worker",
          include: ["test/**/*.test.ts"],
          exclude: ["test/outside/**", SIMULATION],
          ...INSIDE,
        },
      },
      // The contract once more, without anything that saves hops: that may make nothing true, and nothing untrue.
      {
        extends: true,
        plugins: [switchOff(), insideWorkerd()],
        test: { name: "plain", include: PLAIN.map((name) => `test/${name}.test.ts`), ...INSIDE },
      },
      {
        extends: true,
        test: { name: "outside", include: ["test/outside/**/*.test.ts"] },
      },
      {
        extends: true,
        test: {
          name: "simulation",
          include: ["test/simulation/*.test.ts"],
          alias: {
            "cloudflare:workers": new URL("test/simulation/cloudflare-workers.ts", import.meta.url).pathname,
          },
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
