// The body of GET /v1/usage, shared with the usage page, which runs in a browser.

import type { Plan } from "../plans.ts";
import type { WindowName } from "../windows.ts";

/** `reset` is Unix time in seconds. */
export type UsageWindow = { limit: number; used: number; remaining: number; reset: number };

/** `date` is a UTC day, such as `2026-11-20`. */
export type UsageDay = { date: string; admitted: number; refused: number };

/** `bannedUntil` is Unix time in seconds; the days are the last 30, oldest first. */
export interface UsageBody extends Record<WindowName, UsageWindow> {
  plan: Plan;
  bannedUntil: number | null;
  days: UsageDay[];
}
