// Runs the designs of a rate limiter with the same clients, network and faults, on virtual time.

import { PLAN_LIMITS } from "../../src/keys/plans.ts";
import { progress } from "../measure/report.ts";
import { binding } from "./binding.ts";
import type { NewLimiter } from "./limiter.ts";
import { memoryObject, storedObject } from "./object.ts";
import { petstore } from "./petstore.ts";
import { FAULTS, type Fault, type Result, run, type Scenario, TRAFFICS, type Traffic } from "./run.ts";
import { syncedCounters } from "./synced-counters.ts";

/** The last three are variants, because a vendor leaves something open, or because the model differs from it. */
export const DESIGNS = {
  binding,
  "object in memory": memoryObject,
  "synced counters": syncedCounters,
  "stored object": storedObject,
  petstore,
  "binding in one location": (setting) => binding(setting, undefined, () => 0),
  "binding in one location updated after 1 s": (setting) => binding(setting, 1_000, () => 0),
  "synced counters with sliding windows": (setting) => syncedCounters(setting, true),
} satisfies Record<string, NewLimiter>;
export type Design = keyof typeof DESIGNS;
export const PLANS = ["free", "pro", "business"] as const;
export type Plan = (typeof PLANS)[number];
export const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/** Numbers of isolates. */
export const ISOLATES = [1, 3, 10, 30, 100, 300];
/** With faults. */
export const FAULTY = 10;
/** Requests in a minute, as a multiple of the limit. */
const LOADS = { half: 0.5, full: 1, over: 3 };
type Load = keyof typeof LOADS;

/** Results by load. */
export type Loads = Record<Load, Result>;

/** The most that a fault has added in one run to what is admitted above and refused below the limit, in percent of it, a minute. */
interface FaultCost {
  above: number;
  below: number;
}

/** What one design did for one plan, with one kind of traffic, through so many isolates. */
export interface Rung {
  plan: Plan;
  traffic: Traffic;
  design: Design;
  isolates: number;
  loads: Loads;
  faults: Partial<Record<Fault, FaultCost>>;
}

/** Measures the designs for these plans. Throws if a limiter breaks a rule that it checks by itself, or gives a request no response. */
export async function climb(
  plans: readonly Plan[],
  numbers = ISOLATES,
  faults = Object.keys(FAULTS) as Fault[],
  traffics: readonly Traffic[] = TRAFFICS,
): Promise<Rung[]> {
  const rungs: Rung[] = [];
  for (const plan of plans)
    for (const traffic of traffics)
      for (const design of Object.keys(DESIGNS) as Design[]) {
        progress(`ladder: ${plan}, ${traffic}, ${design}`);
        for (const isolates of numbers) {
          const scenario = { limit: PLAN_LIMITS[plan].minute, traffic, isolates };
          const loads = await measure(DESIGNS[design], scenario);
          const costs: Rung["faults"] = {};
          for (const fault of isolates === FAULTY ? faults : [])
            costs[fault] = await costOf(fault, DESIGNS[design], scenario);
          rungs.push({ plan, traffic, design, isolates, loads, faults: costs });
        }
      }
  return rungs;
}

type Common = Omit<Scenario, "load" | "fault">;

/** Runs a scenario without faults, with each load. */
async function measure(newLimiter: NewLimiter, common: Common): Promise<Loads> {
  const at = async (load: number) => {
    const result = await run(newLimiter, { ...common, load }, SEEDS);
    if (result.unanswered > 0) throw new Error(`${result.unanswered} requests without a response`);
    return result;
  };
  return { half: await at(LOADS.half), full: await at(LOADS.full), over: await at(LOADS.over) };
}

async function costOf(fault: Fault, newLimiter: NewLimiter, common: Common): Promise<FaultCost> {
  const added = async (load: number, seed: number, error: keyof FaultCost) => {
    const without = await run(newLimiter, { ...common, load }, [seed]);
    const faulty = await run(newLimiter, { ...common, load, fault }, [seed]);
    return (100 * (faulty[error] - without[error])) / (common.limit * FAULTS[fault]);
  };
  const cost = { above: 0, below: 0 };
  for (const seed of SEEDS) {
    cost.above = Math.max(cost.above, await added(LOADS.over, seed, "above"));
    cost.below = Math.max(cost.below, await added(LOADS.full, seed, "below"));
  }
  return cost;
}
