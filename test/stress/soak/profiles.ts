// Traffic profiles: keys of all plans, and the share of their limits that they request.

import type { Plan } from "../../../src/rate-limit/plans.ts";
import { PLAN_LIMITS } from "../../../src/rate-limit/plans.ts";
import type { Limits } from "../../../src/rate-limit/windows.ts";

/** How a client behaves. `share`: the rate of its requests, relative to its limit per minute. */
export interface Profile {
  name: "under" | "at" | "over" | "waits" | "floods";
  plan: Plan;
  /** For enterprise keys. */
  ownLimits?: Limits;
  share: number;
  /** The number of requests that it sends at once. */
  burst: number;
}

/** The profiles repeat every ten keys. A client below four times its limit is never banned. */
const PROFILES: Profile[] = [
  { name: "under", plan: "free", share: 0.5, burst: 1 },
  { name: "under", plan: "pro", share: 0.5, burst: 1 },
  { name: "under", plan: "business", share: 0.5, burst: 4 },
  { name: "under", plan: "enterprise", ownLimits: { minute: 2_000, day: 1_000_000 }, share: 0.5, burst: 1 },
  { name: "at", plan: "free", share: 1, burst: 1 },
  { name: "over", plan: "pro", share: 1.5, burst: 3 },
  // Uses up the minute in its first seconds, then waits for Retry-After.
  { name: "waits", plan: "free", share: 10, burst: 5 },
  // Uses up its day early.
  { name: "over", plan: "enterprise", ownLimits: { minute: 240, day: 150 }, share: 0.75, burst: 1 },
  { name: "over", plan: "business", share: 1.2, burst: 2 },
];

/** The profiles of every tenth key. The first two are banned soon. */
const LAST_PROFILES: Profile[] = [
  { name: "floods", plan: "free", share: 6, burst: 2 },
  { name: "floods", plan: "pro", share: 6, burst: 10 },
  { name: "at", plan: "enterprise", ownLimits: { minute: 300, day: 1_000_000 }, share: 1, burst: 1 },
];

/** The profile of a key by its number, from 0. */
export function profileOf(number: number): Profile {
  const profile =
    PROFILES[number % 10] ?? LAST_PROFILES[Math.min(LAST_PROFILES.length - 1, Math.floor(number / 10))];
  if (profile === undefined) throw new Error(`key ${number} has no profile`);
  return profile;
}

/** The limits of a key with this profile. */
export function limitsOf({ plan, ownLimits }: Profile): Limits {
  const limits = PLAN_LIMITS[plan] ?? ownLimits;
  if (limits === undefined) throw new Error(`a key on the ${plan} plan has no limits`);
  return limits;
}
