// ./petstore keys show: all about one key. Above all, why its client is refused: its limits and since when they apply, what they have
// refused, a ban, a suspension.

import { SHORT_WINDOWS, WINDOW_NAMES } from "../../../src/keys/plans.ts";
import type { LatestChange } from "../../../src/operators/latest-changes.ts";
import { BANS_COUNTED_DAYS, type ListedKey } from "../../../src/operators/records.ts";
import { USAGE_KEPT_DAYS } from "../../../src/operators/usage.ts";
import { warnOfPlans, withKeys } from "../../keys/context.ts";
import {
  detailsJson,
  isUsed,
  type KeyDetails,
  lastTimes,
  readDetails,
  SHOWN_DAYS,
} from "../../keys/details.ts";
import { AN_ID, COMMON, ID } from "../../keys/options.ts";
import { changeTable, counted, planText, printable, stateText, suspensionText } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { petstoreLine } from "../../lib/line.ts";
import { factsText } from "../../lib/table.ts";
import { formatTime } from "../../lib/time.ts";
import { AGE_NOTE, daysTable, withSeparators } from "../../usage/text.ts";

const SHOWN_CHANGES = 20;

export default defineCommand({
  arguments: [ID],
  options: COMMON,
  examples: [AN_ID, `${AN_ID} --remote`],
  handler: (io, options, id) =>
    withKeys(io, options, async (context) => {
      const details = await readDetails(context, id, options.json ? undefined : SHOWN_CHANGES);
      warnOfPlans(context, [details.key]);
      if (options.json) return io.printJson(detailsJson(details));
      io.print(detailsText(details, context.where));
      io.note(AGE_NOTE);
    }),
});

/** What the heading, the plan and the state show. */
type ShownElsewhere =
  | "id"
  | "name"
  | "limits"
  | "hash"
  | "revokedAtMs"
  | "suspendedAtMs"
  | "suspensionReason"
  | "bannedUntilMs"
  | "bansLiftedUntilMs";

/** A line for each other field of a key. */
const FACTS: {
  [Field in Exclude<keyof ListedKey, ShownElsewhere>]: (details: KeyDetails) => [string, string];
} = {
  states: ({ key }) => ["State", stateText(key)],
  plan: ({ key, limits }) => [
    "Plan",
    `${planText(key)}${limits ? `, since ${formatTime(limits.atMs)}` : ""}`,
  ],
  ref: ({ key }) => ["Ref", printable(key.ref ?? "none")],
  note: ({ key }) => ["Note", printable(key.note ?? "none")],
  access: ({ key }) => ["Access", key.access === "read" ? "read only" : "read and write"],
  bans: ({ key, ban }) => ["Ban", banText(key, ban)],
  lastFour: ({ key }) => ["Key", `ends in ${key.lastFour}`],
  createdAtMs: ({ key }) => ["Created", formatTime(key.createdAtMs)],
  expiresAtMs: ({ key }) => ["Expires", key.expiresAtMs === null ? "never" : formatTime(key.expiresAtMs)],
  graceUntilMs: ({ key, graces }) => [
    "Old keys",
    (key.states.includes("in-grace") && graces.map((ms) => `valid until ${formatTime(ms)}`).join(", ")) ||
      "none valid",
  ],
};

function detailsText(details: KeyDetails, where: string[]): string {
  const { key, changes, changeCount, suspension } = details;
  const days = details.days.slice(-SHOWN_DAYS);
  const earlier = details.days.slice(0, -SHOWN_DAYS).filter(isUsed).length;
  const today = days.at(-1);
  const { lastAdmittedMs, lastRefusedMs } = lastTimes(details.days);
  const facts = Object.values(FACTS).map((fact) => fact(details));
  if (suspension)
    facts.push(["Suspended", `${formatTime(suspension.atMs)} by ${suspension.by}: ${suspension.to}`]);
  else if (key.suspendedAtMs !== null) facts.push(["Suspended", suspensionText(key)]);
  const last = (ms: number | null) =>
    ms === null ? `none recorded in ${USAGE_KEPT_DAYS} days` : formatTime(ms);
  facts.push(["Admitted", `${withSeparators(today?.admitted ?? 0)} today, last ${last(lastAdmittedMs)}`]);
  const refused = WINDOW_NAMES.map((name) => `${withSeparators(today?.refusedBy[name] ?? 0)} by ${name}`);
  facts.push(["Refused", `${refused.join(", ")} today; last ${last(lastRefusedMs)}`]);
  for (const name of SHORT_WINDOWS) {
    const most = Math.max(0, ...days.map(({ busiest }) => busiest[name] ?? 0));
    const ofToday = withSeparators(today?.busiest[name] ?? 0);
    const inAll = `${withSeparators(most)} requests in one ${name} of ${SHOWN_DAYS} days`;
    facts.push(["Busiest", `${inAll}, ${ofToday} today`]);
  }
  const usage = petstoreLine("usage", key.id, "--days", `${USAGE_KEPT_DAYS}`, ...where);
  const ofDays = earlier > 0 ? `\n${counted(earlier, "earlier day")} with requests: ${usage}` : "";
  const log = petstoreLine("keys log", key.id, ...where);
  const ofChanges =
    changeCount > changes.length ? `the latest ${changes.length} of ${changeCount}: ${log}` : "all";
  return `${key.id}  ${printable(key.name)}

${factsText(facts)}

${daysTable(days)}${ofDays}

Changes (${ofChanges}):
${changes.length === 0 ? "none" : changeTable(changes, false)}`;
}

function banText({ bannedUntilMs, bans }: ListedKey, ban: LatestChange | undefined): string {
  const now = bannedUntilMs === null ? "none in force" : `until ${formatTime(bannedUntilMs)}`;
  const last = ban === undefined ? "" : `; the last began ${formatTime(ban.atMs)}`;
  return `${now}${last}, ${bans} in the last ${BANS_COUNTED_DAYS} days`;
}
