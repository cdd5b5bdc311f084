// npm run proof: what takes too long for every push, and runs at full length unless options say otherwise. The weekly workflow has a
// job for each proof.

import { spawn } from "node:child_process";
import { once } from "node:events";

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
    env: { SIMULATION_RUNS: "30000", SIMULATION_TOTALS: "1" },
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
  },
  crash: {
    shows: "kills under load lose or duplicate no write, and exceed no limit",
    command: "test/stress/load/crash.ts",
  },
  soak: {
    shows: "all counts reconcile after minutes of load, and memory is stable",
    command: "test/stress/load/soak.ts",
  },
  mutation: {
    shows: "tests notice changed operators in the modules that run in Node",
    command: "stryker run",
  },
  faults: {
    shows: "tests notice each planted fault",
    command: "test/stress/faults/notice.ts",
  },
  runtimes: {
    shows: "the client package works in the oldest and the newest Node",
    command: "--with=test/support/e2e/runtimes vitest run test/e2e/client-package/client-package.test.ts",
  },
};

/**
 * Runs the named proofs, or one with its options, and continues after a failure. `run` runs a proof and returns its exit code. Returns
 * the exit code: that of one proof, or 1 if one of several has failed.
 */
export async function prove(args: string[], run = runCommand): Promise<number> {
  const [first = "", ...options] = args[0] === "all" && args.length === 1 ? Object.keys(PROOFS) : args;
  if (!Object.hasOwn(PROOFS, first) || PROOFS[first] === undefined) {
    if (first !== "") console.error(`There is no proof "${first}". npm run proof lists all.`);
    else for (const [name, { shows }] of Object.entries(PROOFS)) console.log(`${name.padEnd(12)}${shows}`);
    return 2;
  }
  if (options.length > 0 && options.every((each) => PROOFS[each] !== undefined)) {
    const failed: string[] = [];
    for (const name of [first, ...options]) {
      console.error(`proof: ${name}`);
      if ((await prove([name], run)) !== 0) failed.push(name);
    }
    if (failed.length > 0) console.error(`${failed.length} failed: ${failed.join(", ")}`);
    return failed.length > 0 ? 1 : 0;
  }
  const { shows } = PROOFS[first];
  const startMs = performance.now();
  const code = await run(PROOFS[first], options);
  const minutes = ((performance.now() - startMs) / 60_000).toFixed(1);
  if (code === 0) console.log(`${first}: shown in ${minutes} min: ${shows}`);
  // Otherwise its usage is wrong.
  else if (code !== 2) console.log(`${first}: FAILED after ${minutes} min`);
  return code;
}

async function runCommand({ command, env }: Proof, options: string[]): Promise<number> {
  const args = ["scripts/run.mjs", ...command.split(" "), ...options];
  const child = spawn(process.execPath, args, { env: { ...env, ...process.env }, stdio: "inherit" });
  process.once("exit", () => child.kill());
  const [code] = await once(child, "exit");
  return code ?? 1;
}
