// Whether a larger plan would have helped: which limits have refused requests in the days of the usage page, which plan would have
// admitted all of them, and whether the client could have done without it. Past requests are compared with the limits that the key and
// the plans have now.

import {
  forEachWindow,
  type Limits,
  limitsText,
  PLAN_LIMITS,
  PLANS_WITH_OWN_LIMITS,
  SHORTEST,
  WINDOW_NAMES,
  WINDOWS,
  type WindowName,
} from "../../keys/plans.ts";
import type { UsageBody, UsageDay } from "../../keys/usage/usage-body.ts";
import { capitalize, formatNumber } from "../text.ts";

const DAY_SECONDS = 86_400;

/** The answer, in at most three sentences. With `hasRefusals`, the client may have needed less than they say. */
export function adviceOn({ days, windows }: Pick<UsageBody, "days" | "windows">) {
  const last = `the last ${days.length} days`;
  const refused = forEachWindow((name) => days.filter(({ refusedBy }) => refusedBy[name] > 0).length);
  const refusing = WINDOW_NAMES.filter((name) => refused[name] > 0);
  const hasRefusals = refusing.length > 0;
  if (!hasRefusals)
    return {
      hasRefusals,
      text: `No limit refused a request in ${last}: a larger plan would not have helped.`,
    };
  const limits = forEachWindow((name) => windows[name].limit);
  const needed = forEachWindow((name) => Math.max(...days.map((day) => mostIn(name, day))));
  const refusals = refusing.map((name, index) =>
    index === 0
      ? `On ${refused[name]} of ${last}, the limit per ${name} refused requests`
      : `on ${refused[name]}, the limit per ${name} did`,
  );
  const sentences = [
    `${refusals.join("; ")}.`,
    sufficientPlan(needed, limits),
    refused[SHORTEST] > 0 ? spreading(needed, limits) : "",
  ];
  return { hasRefusals, text: sentences.join(" ").trimEnd() };
}

/** The most requests in one window of a day. */
function mostIn(name: WindowName, { busiest, admitted, refusedBy }: UsageDay): number {
  return busiest[name] ?? Object.values(refusedBy).reduce((sum, refused) => sum + refused, admitted);
}

/** Which limits would have admitted everything: those of the key, those of the smallest plan, or none that is fixed. */
function sufficientPlan(needed: Limits, limits: Limits): string {
  if (isWithin(needed, limits)) return "The limits that the key has now would have admitted all.";
  for (const [name, each] of Object.entries(PLAN_LIMITS)) {
    if (each !== undefined && isWithin(needed, each))
      return `The ${capitalize(name)} plan would have admitted all: ${limitsText(each, formatNumber)}.`;
  }
  const own = PLANS_WITH_OWN_LIMITS.map(capitalize).join(" or ");
  return `No plan with fixed limits would have admitted all: up to ${limitsText(needed, formatNumber)}. The ${own} plan has limits as agreed.`;
}

/** Whether the client could have done without a larger plan, or with a smaller one. */
function spreading(needed: Limits, limits: Limits): string {
  const { [SHORTEST]: limit } = limits;
  // At the limit of the shortest window for a whole day.
  const most = (DAY_SECONDS / WINDOWS[SHORTEST]) * limit;
  const longer = WINDOW_NAMES.slice(1);
  if (needed[SHORTEST] <= limit || needed[longer.at(-1) ?? SHORTEST] > most) return "";
  const burst = `the busiest ${SHORTEST} had ${formatNumber(needed[SHORTEST])} requests, the limit is ${formatNumber(limit)}`;
  return longer.every((name) => needed[name] <= limits[name])
    ? `Without a larger plan, spreading requests over the day would have been enough: ${burst}.`
    : `Spreading requests over the day helps with the limit per ${SHORTEST} only: ${burst}.`;
}

function isWithin(needed: Limits, limits: Limits): boolean {
  return WINDOW_NAMES.every((name) => needed[name] <= limits[name]);
}
