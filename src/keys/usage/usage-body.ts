// The body of GET /v1/usage, which the usage page reads.

import { formatDate } from "../../lib/rfc3339.ts";
import {
  DAY_MS,
  DAYS_KEPT,
  type Day,
  type Outlook,
  remaining,
  resetMs,
  type Window,
} from "../../limits/index.ts";
import { forEachWindow, type Plan, SHORT_WINDOWS, type WindowName } from "../plans.ts";

/** `reset` is Unix time in seconds. */
export type UsageWindow = { limit: number; used: number; remaining: number; reset: number };

/** `busiest`: of each window that is shorter than a day. */
export interface UsageDay extends Pick<Day, "date" | "admitted"> {
  refusedBy: Record<WindowName, number>;
  busiest: Record<string, number>;
}

/** `bannedUntil` is Unix time in seconds; the days are the last DAYS_KEPT, oldest first. */
export interface UsageBody {
  plan: Plan;
  windows: Record<WindowName, UsageWindow>;
  bannedUntil: number | null;
  days: UsageDay[];
}

/** The usage of a key whose object reports these days, as of the outlook. */
export function usageBody(plan: Plan, outlook: Outlook, knownDays: readonly Day[]): UsageBody {
  const { windows, bannedUntilMs } = outlook;
  const describe = (name: WindowName) => {
    const window = windows[name] as Window;
    const { limit, used } = window;
    return { limit, used, remaining: remaining(window), reset: resetMs(window) / 1000 };
  };
  return {
    plan,
    windows: forEachWindow(describe),
    bannedUntil: bannedUntilMs === undefined ? null : bannedUntilMs / 1000,
    days: everyDay(knownDays, outlook),
  };
}

/** The last DAYS_KEPT UTC days, oldest first, including days without a request. If a window is the day, it knows more of today. */
function everyDay(knownDays: readonly Day[], { windows, nowMs }: Outlook): UsageDay[] {
  const today = Object.values(windows).find(({ seconds }) => seconds * 1000 === DAY_MS);
  const todayMs = today?.startMs ?? nowMs;
  return Array.from({ length: DAYS_KEPT }, (_, index) => {
    const daysAgo = DAYS_KEPT - 1 - index;
    const date = formatDate(todayMs - daysAgo * DAY_MS);
    const { admitted = 0, refusedBy = {}, busiest = {} } = knownDays.find((each) => each.date === date) ?? {};
    return {
      date,
      admitted: (daysAgo === 0 ? today?.used : undefined) ?? admitted,
      refusedBy: forEachWindow((name) => refusedBy[name] ?? 0),
      busiest: Object.fromEntries(SHORT_WINDOWS.map((name) => [name, busiest[name] ?? 0])),
    };
  });
}
