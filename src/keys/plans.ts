// The plans and their limits. They are in the code, not in the database: a plan changes with a deployment, a key's plan without one.

import type { Limits } from "../rate-limit/windows.ts";

/** The limits of each plan (contract, section 8). Those of an enterprise key are stored with the key. */
export const PLAN_LIMITS = {
  free: { minute: 60, day: 1_000 },
  pro: { minute: 300, day: 10_000 },
  business: { minute: 1_000, day: 100_000 },
  enterprise: undefined,
} as const satisfies Record<string, Limits | undefined>;

export type Plan = keyof typeof PLAN_LIMITS;

/** The largest limit of an enterprise key, also in the schema of the table. */
export const MAX_LIMIT = 1_000_000_000;
