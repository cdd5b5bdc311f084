// What GET /v1/usage answers with. It stands alone so that the usage page, which runs in a browser, can share it.

import type { Plan } from "../plans.ts";
import type { WindowName } from "../windows.ts";

/** One window; `reset` is Unix time in seconds. */
export interface UsageWindow {
  limit: number;
  used: number;
  remaining: number;
  reset: number;
}

/** One UTC day, as `2026-11-20`. */
export interface UsageDay {
  date: string;
  admitted: number;
  refused: number;
}

/** How a key stands; `bannedUntil` is Unix time in seconds, and the days are the last 30, the oldest first. */
export interface UsageBody extends Record<WindowName, UsageWindow> {
  plan: Plan;
  bannedUntil: number | null;
  days: UsageDay[];
}
