// What the requests of a key meant for its limits: on which days they used one up, and which plan would have been enough. Past days are
// compared with the limits that the key and the plans have now. What a client that waits did not send is unknown.

import {
  forEachWindow,
  type Limits,
  PLAN_LIMITS,
  PLANS,
  PLANS_WITH_OWN_LIMITS,
  type Plan,
  WINDOW_NAMES,
  WINDOWS,
  type WindowName,
} from "../plans.ts";
import type { UsageDay } from "./usage-body.ts";

/** A day, and the windows whose limit was used up on it. */
export type MarkedDay = UsageDay & { usedUp: WindowName[] };

/** All days, the oldest first. */
export function markedDays(days: UsageDay[], limits: Limits): MarkedDay[] {
  return days.map((day, index) => {
    const usedUp = WINDOW_NAMES.filter((name) => {
      const used = day.busiest[name] ?? inLongWindow(name, days, index, ({ admitted }) => admitted);
      // Requests that only other limits refused can be among the busiest ones, and have used up nothing.
      const others = name in day.busiest && day.refusedBy[name] === 0 ? refusedOn(day) : 0;
      return used - others >= limits[name];
    });
    return { ...day, usedUp };
  });
}

/** The most requests that were sent in one window, of each. */
export function mostSent(days: UsageDay[]): Limits {
  return forEachWindow((name) =>
    Math.max(...days.map(({ busiest }, index) => busiest[name] ?? inLongWindow(name, days, index, sentOn))),
  );
}

/** The windows in which so many requests use up these limits. */
export function exceeded(sent: Limits, limits: Limits): WindowName[] {
  return WINDOW_NAMES.filter((name) => sent[name] >= limits[name]);
}

/** For requests that use up each plan with fixed limits. */
export const LARGEST_PLAN = PLANS_WITH_OWN_LIMITS[0] ?? `${PLANS.at(-1)}`;

/** The smallest plan with fixed limits that so many requests don't use up. */
export function smallestPlan(sent: Limits): Plan | undefined {
  return PLANS.find((plan) => {
    const limits = PLAN_LIMITS[plan];
    return limits !== undefined && exceeded(sent, limits).length === 0;
  });
}

/** The requests of a window that is no shorter than a day, on its days up to this one. Windows begin at multiples of their length. */
function inLongWindow(name: WindowName, days: UsageDay[], index: number, of: (day: UsageDay) => number) {
  const windowOf = (day: UsageDay | undefined) =>
    Math.floor(Date.parse(day?.date ?? "") / 1000 / WINDOWS[name]);
  return sum(
    days
      .slice(0, index + 1)
      .filter((day) => windowOf(day) === windowOf(days[index]))
      .map(of),
  );
}

export function refusedOn({ refusedBy }: UsageDay): number {
  return sum(Object.values(refusedBy));
}

export function sentOn(day: UsageDay): number {
  return day.admitted + refusedOn(day);
}

export function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
