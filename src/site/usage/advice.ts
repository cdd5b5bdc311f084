// Whether a larger plan would have helped: which limits have refused requests in the days of the usage page, which plan would have
// admitted all of them, and whether the client could have done without it. Past requests are compared with the limits that the key and
// the plans have now.

import { PLAN_LIMITS, PLANS_WITH_OWN_LIMITS } from "../../keys/plans.ts";
import type { UsageBody } from "../../keys/usage/usage-body.ts";
import type { Limits } from "../../limits/index.ts";
import { capitalize, formatNumber } from "../text.ts";

const MINUTES_PER_DAY = 1_440;

/** The answer, in at most three sentences. With `hasRefusals`, the client may have needed less than they say. */
export function adviceOn({ days, minute, day }: Pick<UsageBody, "days" | "minute" | "day">) {
  const last = `the last ${days.length} days`;
  const refused = {
    minute: days.filter((each) => each.refusedByMinute > 0).length,
    day: days.filter((each) => each.refusedByDay > 0).length,
  };
  const hasRefusals = refused.minute + refused.day > 0;
  if (!hasRefusals)
    return {
      hasRefusals,
      text: `No limit refused a request in ${last}: a larger plan would not have helped.`,
    };
  const limits = { minute: minute.limit, day: day.limit };
  const needed = {
    minute: Math.max(...days.map((each) => each.busiestMinute)),
    day: Math.max(...days.map((each) => each.admitted + each.refusedByMinute + each.refusedByDay)),
  };
  const refusals =
    refused.minute === 0
      ? `On ${refused.day} of ${last}, the limit per day refused requests.`
      : `On ${refused.minute} of ${last}, the limit per minute refused requests${refused.day > 0 ? `; on ${refused.day}, the limit per day did` : ""}.`;
  const sentences = [
    refusals,
    sufficientPlan(needed, limits),
    refused.minute > 0 ? spreading(needed, limits) : "",
  ];
  return { hasRefusals, text: sentences.join(" ").trimEnd() };
}

/** Which limits would have admitted everything: those of the key, those of the smallest plan, or none that is fixed. */
function sufficientPlan(needed: Limits, limits: Limits): string {
  if (isWithin(needed, limits)) return "The limits that the key has now would have admitted all.";
  for (const [name, each] of Object.entries(PLAN_LIMITS)) {
    if (each !== undefined && isWithin(needed, each))
      return `The ${capitalize(name)} plan would have admitted all: ${figures(each)}.`;
  }
  const own = PLANS_WITH_OWN_LIMITS.map(capitalize).join(" or ");
  return `No plan with fixed limits would have admitted all: up to ${figures(needed)}. The ${own} plan has limits as agreed.`;
}

/** Whether the client could have done without a larger plan, or with a smaller one. */
function spreading(needed: Limits, limits: Limits): string {
  // At the limit per minute for a whole day.
  const most = MINUTES_PER_DAY * limits.minute;
  if (needed.minute <= limits.minute || needed.day > most) return "";
  const burst = `the busiest minute had ${formatNumber(needed.minute)} requests, the limit is ${formatNumber(limits.minute)}`;
  return needed.day <= limits.day
    ? `Without a larger plan, spreading requests over the day would have been enough: ${burst}.`
    : `Spreading requests over the day helps with the limit per minute only: ${burst}.`;
}

function figures({ minute, day }: Limits): string {
  return `${formatNumber(minute)} requests per minute, ${formatNumber(day)} per day`;
}

function isWithin(needed: Limits, limits: Limits): boolean {
  return needed.minute <= limits.minute && needed.day <= limits.day;
}
