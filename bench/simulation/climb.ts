// Runs the designs of a rate limiter with the same clients, network and faults, on virtual time.

import { PLAN_LIMITS } from "../../src/keys/plans.ts";
import { progress } from "../measure/report.ts";
import { percentile } from "../measure/statistics.ts";
import { binding } from "./binding.ts";
import { dollarsPerMillion } from "./counts.ts";
import type { NewLimiter } from "./limiter.ts";
import { memoryObject, storedObject } from "./object.ts";
import { petstore } from "./petstore.ts";
import { FAULTS, type Fault, type Result, run, type Scenario, TRAFFICS, type Traffic } from "./run.ts";
import { syncedCounters } from "./synced-counters.ts";

export const DESIGNS = {
  binding,
  "object in memory": memoryObject,
  "counters, 5 s": syncedCounters,
  "stored object": storedObject,
  petstore,
} satisfies Record<string, NewLimiter>;
export type Design = keyof typeof DESIGNS;
export const PLANS = ["free", "pro", "business"] as const;
export type Plan = (typeof PLANS)[number];

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

/** What one design did for one plan with one kind of traffic. */
export interface Rung {
  plan: Plan;
  traffic: Traffic;
  design: Design;
  byIsolates: Map<number, Loads>;
  byFault: Record<Fault, FaultCost>;
}

/** Measures the designs for these plans. Throws if a limiter breaks a rule that it checks by itself, or gives a request no response. */
export async function climb(
  plans: readonly Plan[],
  seeds: readonly number[],
  isolates = ISOLATES,
  faults = Object.keys(FAULTS) as Fault[],
): Promise<Rung[]> {
  const rungs: Rung[] = [];
  for (const plan of plans)
    for (const traffic of TRAFFICS)
      for (const design of Object.keys(DESIGNS) as Design[]) {
        progress(`ladder: ${plan}, ${traffic}, ${design}`);
        const newLimiter = DESIGNS[design];
        const scenario = { limit: PLAN_LIMITS[plan].minute, traffic };
        const byIsolates = new Map<number, Loads>();
        for (const each of isolates)
          byIsolates.set(each, await measure(newLimiter, { ...scenario, isolates: each }, seeds));
        const byFault = {} as Rung["byFault"];
        for (const fault of faults)
          byFault[fault] = await costOf(fault, newLimiter, { ...scenario, isolates: FAULTY }, seeds);
        rungs.push({ plan, traffic, design, byIsolates, byFault });
      }
  return rungs;
}

type Common = Omit<Scenario, "load" | "fault">;

/** Runs a scenario without faults, with each load. */
export async function measure(
  newLimiter: NewLimiter,
  common: Common,
  seeds: readonly number[],
): Promise<Loads> {
  const at = async (load: number) => {
    const result = await run(newLimiter, { ...common, load }, seeds);
    if (result.unanswered > 0) throw new Error(`${result.unanswered} requests without a response`);
    return result;
  };
  return { half: await at(LOADS.half), full: await at(LOADS.full), over: await at(LOADS.over) };
}

async function costOf(
  fault: Fault,
  newLimiter: NewLimiter,
  common: Common,
  seeds: readonly number[],
): Promise<FaultCost> {
  const added = async (load: number, seed: number, error: keyof FaultCost) => {
    const without = await run(newLimiter, { ...common, load }, [seed]);
    const faulty = await run(newLimiter, { ...common, load, fault }, [seed]);
    return (100 * (faulty[error] - without[error])) / (common.limit * FAULTS[fault]);
  };
  const cost = { above: 0, below: 0 };
  for (const seed of seeds) {
    cost.above = Math.max(cost.above, await added(LOADS.over, seed, "above"));
    cost.below = Math.max(cost.below, await added(LOADS.full, seed, "below"));
  }
  return cost;
}

/** The largest of all loads, in percent of the limit, a minute. */
function largest(error: "above" | "below"): (loads: Loads) => number {
  return (loads) => Math.max(...Object.values(loads).map((each) => (100 * each[error]) / each.limits));
}

/** Requests admitted beyond the limit. */
export const above = largest("above");
/** Requests refused while the minute was not used up. */
export const below = largest("below");

/** A percentile of the waits. */
export function waitMs({ waitsMs }: Result, percent: number): number {
  return percentile(waitsMs, percent / 100);
}

/** Of a million requests. */
export function dollars({ counts }: Result): number {
  return dollarsPerMillion(counts);
}
