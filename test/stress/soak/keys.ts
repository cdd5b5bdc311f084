// Who calls: keys of all plans, and how much of its limit each of them asks for.

import type { Plan } from "../../../src/rate-limit/plans.ts";
import { PLAN_LIMITS } from "../../../src/rate-limit/plans.ts";
import type { Limits } from "../../../src/rate-limit/windows.ts";

/** How a client behaves. `share`: how much of its requests per minute it asks for. */
export interface Habit {
  name: "under" | "at" | "over" | "waits" | "hammers";
  plan: Plan;
  /** Enterprise keys have limits of their own. */
  agreed?: Limits;
  share: number;
  /** How many requests it sends at once. */
  burst: number;
}

/** The habits take turns, ten by ten. Who asks for less than four times its limit is never banned. */
const HABITS: Habit[] = [
  { name: "under", plan: "free", share: 0.5, burst: 1 },
  { name: "under", plan: "pro", share: 0.5, burst: 1 },
  { name: "under", plan: "business", share: 0.5, burst: 4 },
  { name: "under", plan: "enterprise", agreed: { minute: 2_000, day: 1_000_000 }, share: 0.5, burst: 1 },
  { name: "at", plan: "free", share: 1, burst: 1 },
  { name: "over", plan: "pro", share: 1.5, burst: 3 },
  // Asks for all of the minute in its first seconds, and then does what it is told.
  { name: "waits", plan: "free", share: 10, burst: 5 },
  // Has used up its day soon.
  { name: "over", plan: "enterprise", agreed: { minute: 240, day: 150 }, share: 0.75, burst: 1 },
  { name: "over", plan: "business", share: 1.2, burst: 2 },
];

/** The last of each ten. The first two are banned soon. */
const LAST_HABITS: Habit[] = [
  { name: "hammers", plan: "free", share: 6, burst: 2 },
  { name: "hammers", plan: "pro", share: 6, burst: 10 },
  { name: "at", plan: "enterprise", agreed: { minute: 300, day: 1_000_000 }, share: 1, burst: 1 },
];

/** The habit of a key, by its number from 0 on. */
export function habitOf(number: number): Habit {
  const habit = HABITS[number % 10] ?? LAST_HABITS[Math.min(LAST_HABITS.length - 1, Math.floor(number / 10))];
  if (habit === undefined) throw new Error(`there is no habit for key ${number}`);
  return habit;
}

/** The limits of a key of this habit. */
export function limitsOf({ plan, agreed }: Habit): Limits {
  const limits = PLAN_LIMITS[plan] ?? agreed;
  if (limits === undefined) throw new Error(`nothing is agreed with a key of the ${plan} plan`);
  return limits;
}
