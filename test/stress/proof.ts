// npm run proof: the long proofs behind docs/guarantees.md, one after the other, each at full length.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Argument } from "@commander-js/extra-typings";
import { type Define, newCommand } from "../../scripts/lib/command.ts";
import { spawnScript } from "../../scripts/lib/script.ts";

interface Proof {
  /** What it has shown if it passes. */
  shows: string;
  /** The npm script, and its arguments. */
  script: string;
  args?: string[];
  env?: Record<string, string>;
}

/** In .github/workflows/weekly.yml, each is a job. */
export const PROOFS: Record<string, Proof> = {
  // About ten minutes.
  simulation: {
    shows: "a key gets exactly its limit in 30,000 random scenarios with faults",
    script: "test",
    args: ["test/simulation/simulation.test.ts"],
    env: { SIMULATION_RUNS: "30000", SIMULATION_TOTALS: "1" },
  },
  // Depth 6 would take hours.
  exhaustive: {
    shows: "a key gets exactly its limit in every order of 5 events",
    script: "test",
    args: ["test/simulation/exhaustive.test.ts"],
    env: { EXHAUSTIVE_DEPTH: "5", SIMULATION_TOTALS: "1" },
  },
  fuzz: {
    shows: "each of 1,000,000 generated requests gets a documented response",
    script: "fuzz",
    args: ["--requests", "1000000"],
  },
  crash: { shows: "kills under load lose or duplicate no write, and exceed no limit", script: "crash" },
  soak: { shows: "all counts reconcile after ten minutes, and memory is stable", script: "soak" },
  mutation: { shows: "tests notice changed operators in the modules that run in Node", script: "mutation" },
  faults: { shows: "tests notice each planted fault", script: "faults" },
};

/** The command. `run` runs a proof, and returns whether it has passed. */
export const proofCommand =
  (run: (proof: Proof) => Promise<boolean>): Define =>
  (io) =>
    newCommand(
      "npm run proof",
      "Runs the long proofs of docs/guarantees.md, which take hours, or some of them. Continues after a failure.",
      "",
      "crash soak",
    )
      .addArgument(new Argument("[proofs...]", "by default all").choices(Object.keys(PROOFS)))
      .action(async (names: string[]) => {
        const proofs = Object.entries(PROOFS).filter(([name]) => names.length === 0 || names.includes(name));
        const failed: string[] = [];
        for (const [name, proof] of proofs) {
          io.note(`proof: ${name}`);
          const startMs = performance.now();
          const hasPassed = await run(proof);
          const minutes = ((performance.now() - startMs) / 60_000).toFixed(1);
          io.print(
            hasPassed
              ? `${name}: shown in ${minutes} min: ${proof.shows}`
              : `${name}: FAILED after ${minutes} min`,
          );
          if (!hasPassed) failed.push(name);
        }
        if (failed.length > 0)
          throw new Error(`${failed.length} of ${proofs.length} proofs failed: ${failed.join(", ")}`);
      });

export default proofCommand(runScript);

/** Runs an npm script of this project with this Node. */
async function runScript({ script, args = [], env }: Proof): Promise<boolean> {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };
  // The first words are `node scripts/run.mjs`, which started this process too.
  const [, , ...words] = scripts[script]?.split(" ") ?? [];
  const child = spawnScript([...words, ...args], { ...process.env, npm_lifecycle_event: script, ...env });
  const [code] = await once(child, "exit");
  return code === 0;
}
