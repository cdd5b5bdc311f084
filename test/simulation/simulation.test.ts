// Thousands of random scenarios of one key, with random isolates, clients, limits and faults (scenario.ts).
//
// `SIMULATION_RUNS=100000 npm test -- test/simulation/simulation.test.ts` sets the number of scenarios. A failure prints its seed;
// SIMULATION_SEED=n runs that scenario alone.

import { expect, inject, it } from "vitest";
import { runScenario } from "./scenario.ts";

it("limits are exact in every scenario", { timeout: 0 }, async () => {
  const seed = inject("simulationSeed");
  const runs = seed === null ? inject("simulationRuns") : 1;
  const first = seed ?? Math.floor(Math.random() * 2 ** 31);
  const totals: Record<string, number> = {};
  for (let run = first; run < first + runs; run += 1) {
    const seen = await runScenario(run).catch((failure: Error) => {
      const again = `SIMULATION_SEED=${run} npm test -- test/simulation/simulation.test.ts`;
      throw new Error(`${failure.message}\nTo reproduce: ${again}`, { cause: failure });
    });
    for (const [name, times] of Object.entries(seen)) totals[name] = (totals[name] ?? 0) + times;
  }
  if (process.env.SIMULATION_TOTALS !== undefined) process.stderr.write(`${JSON.stringify(totals)}\n`);
  // Every fault and event must have occurred.
  if (runs >= 1_000) expect(Object.entries(totals).filter(([, times]) => times === 0)).toEqual([]);
});
