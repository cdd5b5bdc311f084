// Thousands of short lives of one key, each with other isolates, clients, limits and faults (life.ts).
//
// SIMULATION_RUNS=100000 npm test -- test/simulation/simulation.test.ts lives as many as that says. A life that fails says its
// seed, and SIMULATION_SEED=n lives just that one again.

import { expect, inject, it } from "vitest";
import { live, NO_TOTALS, type Totals } from "./life.ts";

it("limits are exact in every life", { timeout: 0 }, async () => {
  const seed = inject("simulationSeed");
  const runs = seed === null ? inject("simulationRuns") : 1;
  const first = seed ?? Math.floor(Math.random() * 2 ** 31);
  const totals: Totals = { ...NO_TOTALS };
  for (let run = first; run < first + runs; run += 1) {
    const seen = await live(run).catch((failure: Error) => {
      const again = `SIMULATION_SEED=${run} npm test -- test/simulation/simulation.test.ts`;
      throw new Error(`${failure.message}\nTo see it again: ${again}`, { cause: failure });
    });
    for (const name of Object.keys(totals) as (keyof Totals)[]) totals[name] += seen[name];
  }
  if (process.env.SIMULATION_TOTALS !== undefined) process.stderr.write(`${JSON.stringify(totals)}\n`);
  // Otherwise something was never put to the test.
  if (runs >= 1_000) expect(Object.entries(totals).filter(([, times]) => times === 0)).toEqual([]);
});
