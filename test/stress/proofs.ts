// What takes too long for every push, and runs at full length unless options say otherwise. The weekly workflow has a job for each.

import { randomInt } from "node:crypto";

/** Another one each time. */
const TEST_SEED = `${randomInt(1, 2 ** 31)}`;

export interface Proof {
  /** What it has shown if it passes. */
  shows: string;
  /** Arguments of scripts/run.mjs, before the options of the proof. */
  command: string;
  /** Defaults of environment variables. */
  env?: Record<string, string>;
}

export const PROOFS: Record<string, Proof> = {
  // About ten minutes.
  simulation: {
    shows: "a key gets exactly its limit in random scenarios with faults",
    command: "vitest run test/simulation/simulation.test.ts",
    env: { SIMULATION_RUNS: "30000", SIMULATION_TOTALS: "1", TEST_SEED },
  },
  chance: {
    shows: "all tests pass in another order, and with other random data",
    command: "vitest run",
    env: { TEST_SEED },
  },
  // Depth 6 would take hours.
  exhaustive: {
    shows: "a key gets exactly its limit in every order of 5 events",
    command: "vitest run test/simulation/exhaustive.test.ts",
    env: { EXHAUSTIVE_DEPTH: "5", SIMULATION_TOTALS: "1" },
  },
  fuzz: {
    shows: "each generated request, valid or not, gets a documented response",
    command: "test/stress/fuzz/fuzz.ts",
    env: { TEST_SEED },
  },
  crash: {
    shows: "kills under load lose or duplicate no write, and exceed no limit",
    command: "test/stress/load/crash.ts",
    env: { TEST_SEED },
  },
  soak: {
    shows: "all counts reconcile after minutes of load, and memory is stable",
    command: "test/stress/load/soak.ts",
    env: { TEST_SEED },
  },
  mutation: {
    shows: "tests notice changed operators in the modules that run in Node",
    command: "stryker run",
  },
  faults: {
    shows: "tests notice each planted fault",
    command: "test/stress/faults/notice.ts",
  },
  restore: {
    shows: "a restore that is killed anywhere, twice, is finished by the same command",
    command: "vitest run test/e2e/backup.test.ts",
    env: { RESTORE_DRILLS: "20", TEST_SEED },
  },
  runtimes: {
    shows: "the client package works in the oldest and the newest Node",
    command: "--with=test/support/e2e/runtimes vitest run test/e2e/client-package/client-package.test.ts",
  },
};
