// Thousands of short lives of one key, each with other isolates, clients, limits and faults: whatever happens, nobody is let
// in beyond the limit, nobody is refused for no reason, and nobody waits forever (simulation.ts).
//
// It runs 10,000 of them, others each time; SIMULATION_RUNS=100000 npm test -- test/simulation.test.ts runs as many as that
// says. One that fails says its seed, and SIMULATION_SEED=n runs just that one again.

import { expect, inject, it } from "vitest";
import { NOTHING, simulate, type Totals } from "./simulation.ts";

it("limits hold in every run of the simulation", { timeout: 0 }, async () => {
  const seed = inject("simulationSeed");
  const runs = seed === null ? inject("simulationRuns") : 1;
  const first = seed ?? Math.floor(Math.random() * 2 ** 31);
  const totals: Totals = { ...NOTHING };
  for (let run = first; run < first + runs; run += 1) {
    const seen = await simulate(run).catch((failure: Error) => {
      const again = `SIMULATION_SEED=${run} npm test -- test/simulation.test.ts`;
      throw new Error(`${failure.message}\nTo see it again: ${again}`, { cause: failure });
    });
    for (const name of Object.keys(totals) as (keyof Totals)[]) totals[name] += seen[name];
  }
  if (process.env.SIMULATION_TOTALS !== undefined) process.stderr.write(`${JSON.stringify(totals)}\n`);
  // Every mechanism and every fault was met: otherwise nothing of it was put to the test.
  if (runs >= 1_000) expect(Object.entries(totals).filter(([, times]) => times === 0)).toEqual([]);
});
