// What the limits meant on the days of the usage page: when they were used up, how many requests they refused, and what a larger plan would
// have changed. Past days are compared with the limits that the key and the plans have now. What a client that waits did not send is
// unknown, so no text says that a plan would have been enough for it.

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
import type { UsageBody, UsageDay } from "../../keys/usage/usage-body.ts";
import { capitalize, formatNumber } from "../text.ts";

/** A day, and the windows whose limit was used up on it. */
export type MarkedDay = UsageDay & { usedUp: WindowName[] };

type Usage = Pick<UsageBody, "days" | "windows">;

const DAY_SECONDS = 86_400;

export function markedDays({ days, windows }: Usage): MarkedDay[] {
  return days.map((day, index) => {
    const usedUp = WINDOW_NAMES.filter((name) => {
      const used = day.busiest[name] ?? inLongWindow(name, days, index, ({ admitted }) => admitted);
      // Requests that only other limits refused can be among the busiest ones, and have used up nothing.
      const others = name in day.busiest && day.refusedBy[name] === 0 ? refusedOn(day) : 0;
      return used - others >= windows[name].limit;
    });
    return { ...day, usedUp };
  });
}

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
export function adviceOn(days: MarkedDay[], windows: Usage["windows"]): string {
  const hasRefusals = days.some((day) => refusedOn(day) > 0);
  const exhausted = days.flatMap(({ usedUp }) => usedUp);
  if (!hasRefusals && exhausted.length === 0)
    return "No limit was used up: a larger plan would have changed nothing.";
  const limits = forEachWindow((name) => windows[name].limit);
  const sent = forEachWindow((name) =>
    Math.max(...days.map(({ busiest }, index) => busiest[name] ?? inLongWindow(name, days, index, sentOn))),
  );
  const burst = SHORT_WINDOWS.find((name) => exhausted.includes(name));
  const others = hasRefusals ? "A client that repeats refused requests may need less, one" : "A client";
  return [
    sufficientPlan(sent, limits),
    ...(burst === undefined ? [] : spreading(burst, sent, limits, Math.max(...days.map(sentOn)))),
    `${others} that waits may need more: requests that were not sent are not counted.`,
  ].join(" ");
}

/** Which limits would not have been used up: those of the key, those of the smallest plan, or none that is fixed. */
function sufficientPlan(sent: Limits, limits: Limits): string {
  const outcome = "would have admitted these requests with no limit used up";
  if (exceeded(sent, limits).length === 0) return `The limits that the key has now ${outcome}.`;
  for (const [name, each] of Object.entries(PLAN_LIMITS)) {
    if (each !== undefined && exceeded(sent, each).length === 0)
      return `The ${capitalize(name)} plan is the smallest that ${outcome}: ${limitsText(each, formatNumber)}.`;
  }
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

/** The windows in which so many requests use up these limits. */
function exceeded(sent: Limits, limits: Limits): WindowName[] {
  return WINDOW_NAMES.filter((name) => sent[name] >= limits[name]);
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

function refusedOn({ refusedBy }: UsageDay): number {
  return sum(Object.values(refusedBy));
}

export function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function sentOn(day: UsageDay): number {
  return day.admitted + refusedOn(day);
}
