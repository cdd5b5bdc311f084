// What the usage page says about the days of a key: how often a limit was used up, how many requests were refused, and what a larger plan
// would have changed. No text says that a plan would have been enough for a client that waits.

import {
  forEachWindow,
  type Limits,
  limitsText,
  PLAN_LIMITS,
  PLANS_WITH_OWN_LIMITS,
  SHORT_WINDOWS,
  WINDOW_NAMES,
  WINDOWS,
  type WindowName,
} from "../../keys/plans.ts";
import {
  exceeded,
  type MarkedDay,
  mostSent,
  refusedOn,
  sentOn,
  smallestPlan,
  sum,
} from "../../keys/usage/demand.ts";
import type { UsageBody } from "../../keys/usage/usage-body.ts";
import { capitalize, formatNumber } from "../text.ts";

const DAY_SECONDS = 86_400;

/** The totals of the days, each with its title. */
export function totalsOf(days: MarkedDay[]): [title: string, total: string][] {
  return [
    ...WINDOW_NAMES.map((name): [string, string] => {
      const count = days.filter(({ usedUp }) => usedUp.includes(name)).length;
      return [`Limit per ${name} used up`, `${count} ${count === 1 ? "day" : "days"}`];
    }),
    ["Refused requests", formatNumber(sum(days.map(refusedOn)))],
  ];
}

/** What a larger plan, or spreading requests, would have changed: at most four sentences. */
export function adviceOn(days: MarkedDay[], windows: UsageBody["windows"]): string {
  const hasRefusals = days.some((day) => refusedOn(day) > 0);
  const exhausted = days.flatMap(({ usedUp }) => usedUp);
  if (!hasRefusals && exhausted.length === 0)
    return "No limit was used up: a larger plan would have changed nothing.";
  const limits = limitsOfWindows(windows);
  const sent = mostSent(days);
  const burst = SHORT_WINDOWS.find((name) => exhausted.includes(name));
  const others = hasRefusals ? "A client that repeats refused requests may need less, one" : "A client";
  return [
    sufficientPlan(sent, limits),
    ...(burst === undefined ? [] : spreading(burst, sent, limits, Math.max(...days.map(sentOn)))),
    `${others} that waits may need more: requests that were not sent are not counted.`,
  ].join(" ");
}

export function limitsOfWindows(windows: UsageBody["windows"]): Limits {
  return forEachWindow((name) => windows[name].limit);
}

/** Which limits would not have been used up: those of the key, those of the smallest plan, or none that is fixed. */
function sufficientPlan(sent: Limits, limits: Limits): string {
  const outcome = "would have admitted these requests with no limit used up";
  if (exceeded(sent, limits).length === 0) return `The limits that the key has now ${outcome}.`;
  const plan = smallestPlan(sent);
  const ofPlan = plan && PLAN_LIMITS[plan];
  if (ofPlan)
    return `The ${capitalize(plan)} plan is the smallest that ${outcome}: ${limitsText(ofPlan, formatNumber)}.`;
  const own = PLANS_WITH_OWN_LIMITS.map(capitalize).join(" or ");
  return `No plan with fixed limits ${outcome}: up to ${limitsText(sent, formatNumber)}. The ${own} plan has limits as agreed.`;
}

/** Whether the client could have done without a larger plan. `burst` was used up; a day had at most `most` requests. */
function spreading(burst: WindowName, sent: Limits, limits: Limits, most: number): string[] {
  // With each of these windows full for a whole day.
  if (SHORT_WINDOWS.some((name) => most >= (DAY_SECONDS / WINDOWS[name]) * limits[name])) return [];
  const reason = `the busiest ${burst} had ${formatNumber(sent[burst])} requests, the limit is ${formatNumber(limits[burst])}`;
  const long = exceeded(sent, limits).find((name) => !SHORT_WINDOWS.includes(name));
  return long === undefined
    ? [`Without a larger plan, spreading requests over the day would have been enough: ${reason}.`]
    : [`Spreading requests over the day helps with the limit per ${burst}, not per ${long}: ${reason}.`];
}
