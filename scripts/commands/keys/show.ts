// ./petstore keys show: all about one key. Above all, why its client is refused: its limits and since when they apply, what they have
// refused, a ban, a suspension.

import { SHORT_WINDOWS, WINDOW_NAMES } from "../../../src/keys/plans.ts";
import { type LatestChange, latestChanges } from "../../../src/operators/latest-changes.ts";
import {
  BANS_COUNTED_DAYS,
  countChanges,
  findGraces,
  type ListedKey,
  listChanges,
} from "../../../src/operators/records.ts";
import { type DayUsage, listDays, USAGE_KEPT_DAYS, withUsedUp } from "../../../src/operators/usage.ts";
import { type Context, findKey, warnOfPlans, withKeys } from "../../keys/context.ts";
import { AN_ID, COMMON, ID } from "../../keys/options.ts";
import {
  changeJson,
  changeTable,
  counted,
  keyJson,
  planText,
  printable,
  stateText,
  suspensionText,
} from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { petstoreLine } from "../../lib/line.ts";
import { factsText } from "../../lib/table.ts";
import { formatTime } from "../../lib/time.ts";
import { AGE_NOTE, daysTable, usageJson, withSeparators } from "../../usage/text.ts";

const SHOWN_CHANGES = 20;
const SHOWN_DAYS = 7;

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

type KeyDetails = Awaited<ReturnType<typeof readDetails>>;

/** A key with its changes, or the latest of them, those that gave it its limits, its last ban, and its suspension if it is suspended. */
async function readDetails(context: Context, id: string, maxChanges: number | undefined) {
  const { database, operator } = context;
  const key = await findKey(context, id);
  const { created, plan, banned, suspended } = await latestChanges(database, id);
  // In a full database, keys were suspended without a record.
  const isRecorded = suspended !== undefined && suspended.atMs === key.suspendedAtMs;
  const changes = await listChanges(database, id, maxChanges);
  const hasMore = changes.length === maxChanges;
  return {
    key,
    graces: await findGraces(database, id, operator.nowMs),
    changes,
    changeCount: hasMore ? await countChanges(database, { id }) : changes.length,
    limits: plan ?? created,
    ban: banned,
    suspension: isRecorded ? suspended : undefined,
    days: withUsedUp(
      sinceFirstUse(await listDays(database, id, operator.nowMs, USAGE_KEPT_DAYS)),
      key.limits,
    ),
  };
}

/** The days from the first with requests on, and at least those that are shown as text. */
function sinceFirstUse(days: DayUsage[]): DayUsage[] {
  const first = days.findIndex(isUsed);
  return days.slice(first < 0 ? -SHOWN_DAYS : Math.min(first, days.length - SHOWN_DAYS));
}

function isUsed({ busiest }: DayUsage): boolean {
  return Object.values(busiest).some((requests) => requests !== null);
}

/** When a request was last admitted, and when one was last refused, on these days. */
function lastTimes(days: DayUsage[]) {
  const last = (time: "lastAdmittedMs" | "lastRefusedMs") =>
    Math.max(0, ...days.map((day) => day[time] ?? 0)) || null;
  return { lastAdmittedMs: last("lastAdmittedMs"), lastRefusedMs: last("lastRefusedMs") };
}

function detailsJson({ key, graces, changes, limits, ban, suspension, days }: KeyDetails) {
  const timeOf = (change: LatestChange | undefined) => change && formatTime(change.atMs);
  return {
    ...keyJson(key),
    graces: graces.map(formatTime),
    changes: changes.map(changeJson),
    limitsSince: timeOf(limits) ?? null,
    lastBanAt: timeOf(ban) ?? null,
    suspension: suspension ? { at: timeOf(suspension), by: suspension.by, reason: suspension.to } : null,
    ...usageJson(lastTimes(days)),
    days: days.map(usageJson),
  };
}

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
