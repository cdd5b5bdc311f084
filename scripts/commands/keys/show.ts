// ./petstore keys show: all about one key. Above all, why its client is refused: its limits and since when they apply, what they have
// refused, a ban, a suspension.

import { type LatestChange, latestChanges } from "../../../src/operators/latest-changes.ts";
import {
  BANS_COUNTED_DAYS,
  findGraces,
  type ListedKey,
  listChanges,
} from "../../../src/operators/records.ts";
import { type DayUsage, listDays } from "../../../src/operators/usage.ts";
import { type Context, findKey, warnOfPlans, withKeys } from "../../keys/context.ts";
import { AN_ID, COMMON, ID } from "../../keys/options.ts";
import { changeJson, changeTable, keyJson, planText, printable, stateText } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
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
      const details = await readDetails(context, id);
      warnOfPlans(context, [details.key]);
      if (options.json) return io.printJson(detailsJson(details));
      io.print(detailsText(details));
      io.note(AGE_NOTE);
    }),
});

type KeyDetails = Awaited<ReturnType<typeof readDetails>>;

/** A key with the changes that gave it its limits, its last ban, and its suspension if it is suspended. */
async function readDetails(context: Context, id: string) {
  const { database, operator } = context;
  const key = await findKey(context, id);
  const { created, plan, banned, suspended, resumed } = await latestChanges(database, id);
  // In a full database, keys were suspended and resumed without a record.
  const isSuspended =
    key.suspendedAtMs !== null && suspended !== undefined && suspended.id > (resumed?.id ?? 0);
  return {
    key,
    graces: await findGraces(database, id, operator.nowMs),
    changes: await listChanges(database, id, SHOWN_CHANGES),
    limits: plan ?? created,
    ban: banned,
    suspension: isSuspended ? suspended : undefined,
    days: await listDays(database, id, operator.nowMs, SHOWN_DAYS),
  };
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

function detailsText(details: KeyDetails): string {
  const { key, changes, suspension, days } = details;
  const today = days.at(-1);
  const { lastAdmittedMs, lastRefusedMs } = lastTimes(days);
  const facts = Object.values(FACTS).map((fact) => fact(details));
  if (suspension)
    facts.push(["Suspended", `${formatTime(suspension.atMs)} by ${suspension.by}: ${suspension.to}`]);
  const busiest = Math.max(0, ...days.map(({ busiestMinute }) => busiestMinute ?? 0));
  const last = (ms: number | null) => (ms === null ? `none recorded in ${SHOWN_DAYS} days` : formatTime(ms));
  facts.push(["Admitted", `${withSeparators(today?.admitted ?? 0)} today, last ${last(lastAdmittedMs)}`]);
  const refused = [today?.refusedMinute ?? 0, today?.refusedDay ?? 0].map(withSeparators);
  facts.push(["Refused", `${refused[0]} by minute, ${refused[1]} by day today; last ${last(lastRefusedMs)}`]);
  facts.push([
    "Busiest",
    `${withSeparators(busiest)} requests in one minute of ${SHOWN_DAYS} days, ${withSeparators(today?.busiestMinute ?? 0)} today`,
  ]);
  return `${key.id}  ${printable(key.name)}

${factsText(facts)}

${daysTable(days)}

Changes (the latest ${SHOWN_CHANGES}):
${changes.length === 0 ? "none" : changeTable(changes, false)}`;
}

function banText({ bannedUntilMs, bans }: ListedKey, ban: LatestChange | undefined): string {
  const now = bannedUntilMs === null ? "none in force" : `until ${formatTime(bannedUntilMs)}`;
  const last = ban === undefined ? "" : `; the last began ${formatTime(ban.atMs)}`;
  return `${now}${last}, ${bans} in the last ${BANS_COUNTED_DAYS} days`;
}
