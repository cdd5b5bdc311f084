// The body of GET /v1/usage, which the usage page reads.

import { formatDate } from "../../lib/rfc3339.ts";
import {
  DAY_MS,
  DAYS_KEPT,
  type DayTotals,
  type KeyWindows,
  remaining,
  resetMs,
  type WindowName,
} from "../../limits/index.ts";
import type { Plan } from "../plans.ts";

/** `reset` is Unix time in seconds. */
export type UsageWindow = { limit: number; used: number; remaining: number; reset: number };

/** `date` is a UTC day, such as `2026-11-20`. */
export interface UsageDay
  extends Pick<DayTotals, "admitted" | "refusedByMinute" | "refusedByDay" | "busiestMinute"> {
  date: string;
}

/** `bannedUntil` is Unix time in seconds; the days are the last DAYS_KEPT, oldest first. */
export interface UsageBody extends Record<WindowName, UsageWindow> {
  plan: Plan;
  bannedUntil: number | null;
  days: UsageDay[];
}

/** The usage of a key whose object reports this. `bannedUntilMs` is Unix time. The totals of today are those of `windows`. */
export function usageBody(
  plan: Plan,
  windows: KeyWindows,
  bannedUntilMs: number | undefined,
  knownDays: readonly DayTotals[],
): UsageBody {
  return {
    plan,
    minute: describe(windows, "minute"),
    day: describe(windows, "day"),
    bannedUntil: bannedUntilMs === undefined ? null : bannedUntilMs / 1000,
    days: everyDay(knownDays, windows),
  };
}

function describe(windows: KeyWindows, name: WindowName): UsageWindow {
  const window = windows[name];
  const { limit, used } = window;
  return { limit, used, remaining: remaining(window), reset: resetMs(window, name) / 1000 };
}

/** The last DAYS_KEPT UTC days, oldest first, including days without a request. */
function everyDay(knownDays: readonly DayTotals[], { day }: KeyWindows): UsageDay[] {
  return Array.from({ length: DAYS_KEPT }, (_, index) => {
    const startMs = day.startMs - (DAYS_KEPT - 1 - index) * DAY_MS;
    const date = formatDate(startMs);
    const known = knownDays.find((each) => each.startMs === startMs);
    const { admitted = 0, refusedByMinute = 0, refusedByDay = 0, busiestMinute = 0 } = known ?? {};
    return {
      date,
      admitted: startMs === day.startMs ? day.used : admitted,
      refusedByMinute,
      refusedByDay,
      busiestMinute,
    };
  });
}
