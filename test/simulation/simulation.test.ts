// Random lives of a key, with random isolates, clients, limits and faults (scenario.ts).
//
// `SIMULATION_RUNS=100000 npm test -- test/simulation/simulation.test.ts` sets the number of lives, TEST_SEED=n the seed of the first one.
// A failure prints the seed of its life; SIMULATION_SEED=n runs that life alone.

import { expect, inject, it } from "vitest";
import { SEED } from "../support/seed.ts";
import { runScenario } from "./scenario.ts";

/** Lives in which something was wrong once. After a change of scenario.ts they are lives like the others. */
const WRONG_ONCE = [335658193, 777685749];

it("limits are exact in every scenario", { timeout: 0 }, async () => {
  const seed = inject("simulationSeed");
  const runs = inject("simulationRuns");
  const lives = [...WRONG_ONCE, ...Array.from({ length: runs }, (_, index) => SEED + index)];
  const totals: Record<string, number> = {};
  for (const life of seed === null ? lives : [seed]) {
    const seen = await runScenario(life).catch((failure: Error) => {
      const again = `SIMULATION_SEED=${life} npm test -- test/simulation/simulation.test.ts`;
      throw new Error(`${failure.message}\nTo reproduce: ${again}`, { cause: failure });
    });
    for (const [name, times] of Object.entries(seen)) totals[name] = (totals[name] ?? 0) + times;
  }
  if (process.env.SIMULATION_TOTALS !== undefined) process.stderr.write(`${JSON.stringify(totals)}\n`);
  // Every fault and event must have occurred.
  if (seed === null && runs >= 200)
    expect(Object.entries(totals).filter(([, times]) => times === 0)).toEqual([]);
});
