// All that operators read about one key, for keys show and the dashboard.

import { SHORT_WINDOWS, WINDOW_NAMES } from "../../src/keys/plans.ts";
import {
  BANS_COUNTED_DAYS,
  countChanges,
  findGraces,
  type Grace,
  type LatestChange,
  type ListedKey,
  latestChanges,
  listChanges,
} from "../../src/operators/records.ts";
import { type DayUsage, listDays, USAGE_KEPT_DAYS } from "../../src/operators/usage.ts";
import { petstoreLine } from "../lib/line.ts";
import { jsonOf, tableOf, withSeparators } from "../lib/report.ts";
import { factsText } from "../lib/table.ts";
import { formatTime } from "../lib/time.ts";
import { dayColumns } from "../usage/text.ts";
import { type Context, findKey } from "./context.ts";
import { changeColumns, clipped, counted, keyJson, planPhrase, stateText, suspensionText } from "./text.ts";

/** Days that are there at least. */
export const SHOWN_DAYS = 7;

export type KeyDetails = Awaited<ReturnType<typeof readDetails>>;

/** A key with its changes, or the latest of them, those that gave it its limits, its last ban, and its suspension if it is suspended. */
export async function readDetails(
  context: Pick<Context, "database" | "operator" | "where">,
  id: string,
  maxChanges: number | undefined,
) {
  const { database, operator } = context;
  const key = await findKey(context, id);
  const { created, plan, banned, suspended } = await latestChanges(database, id);
  // In a full database, keys were suspended without a record.
  const isRecorded = suspended !== undefined && suspended.atMs === key.suspendedAtMs;
  const changes = await listChanges(database, { id }, maxChanges);
  const hasMore = changes.length === maxChanges;
  return {
    key,
    graces: await findGraces(database, id, operator.nowMs),
    changes,
    changeCount: hasMore ? await countChanges(database, { id }) : changes.length,
    limits: plan ?? created,
    ban: banned,
    suspension: isRecorded ? suspended : undefined,
    days: sinceFirstUse(await listDays(database, id, operator.nowMs, USAGE_KEPT_DAYS)),
  };
}

/** The days from the first with requests on, and at least those that are shown as text. */
function sinceFirstUse<Day extends DayUsage>(days: Day[]): Day[] {
  const first = days.findIndex(isUsed);
  return days.slice(first < 0 ? -SHOWN_DAYS : Math.min(first, days.length - SHOWN_DAYS));
}

export function isUsed({ busiest }: DayUsage): boolean {
  return Object.values(busiest).some((requests) => requests !== null);
}

/** When a request was last admitted, and when one was last refused, on these days. */
export function lastTimes(days: DayUsage[]) {
  const last = (time: "lastAdmittedMs" | "lastRefusedMs") =>
    Math.max(0, ...days.map((day) => day[time] ?? 0)) || null;
  return { lastAdmittedMs: last("lastAdmittedMs"), lastRefusedMs: last("lastRefusedMs") };
}

export function detailsJson({ key, graces, changes, limits, ban, suspension, days }: KeyDetails) {
  const timeOf = (change: LatestChange | undefined) => change && formatTime(change.atMs);
  return {
    ...keyJson(key),
    graces: graces.map(jsonOf),
    changes: changes.map(jsonOf),
    limitsSince: timeOf(limits) ?? null,
    lastBanAt: timeOf(ban) ?? null,
    suspension: suspension ? { at: timeOf(suspension), by: suspension.by, reason: suspension.to } : null,
    ...jsonOf(lastTimes(days)),
    days: days.map(jsonOf),
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
  | "bansLiftedUntilMs"
  | "foundReplaced";

/** A line for each other field of a key. */
const FACTS: {
  [Field in Exclude<keyof ListedKey, ShownElsewhere>]: (details: KeyDetails) => [string, string];
} = {
  states: ({ key }) => ["State", stateText(key)],
  plan: ({ key, limits }) => [
    "Plan",
    `${planPhrase(key)}${limits ? `, since ${formatTime(limits.atMs)}` : ""}`,
  ],
  ref: ({ key }) => ["Ref", clipped(key.ref ?? "none")],
  note: ({ key }) => ["Note", clipped(key.note ?? "none")],
  access: ({ key }) => ["Access", key.access === "read" ? "read only" : "read and write"],
  bans: ({ key, ban }) => ["Ban", banText(key, ban)],
  lastFour: ({ key }) => ["Key", `ends in ${key.lastFour}`],
  createdAtMs: ({ key }) => ["Created", formatTime(key.createdAtMs)],
  expiresAtMs: ({ key }) => ["Expires", key.expiresAtMs === null ? "never" : formatTime(key.expiresAtMs)],
  graceUntilMs: ({ key, graces }) => [
    "Old keys",
    (key.states.includes("in-grace") && graces.map(graceText).join(", ")) || "none valid",
  ],
};

/** What is known of the key, for people: pairs of a name and a text. */
export function keyFacts(details: KeyDetails): [name: string, text: string][] {
  const { key, suspension } = details;
  const facts = Object.values(FACTS).map((fact) => fact(details));
  if (suspension)
    facts.push(["Suspended", `${formatTime(suspension.atMs)} by ${suspension.by}: ${suspension.to}`]);
  else if (key.suspendedAtMs !== null) facts.push(["Suspended", suspensionText(key)]);
  return facts;
}

/** `Y8ye works until 2026-12-25T00:00:00Z` */
function graceText({ lastFour, untilMs }: Grace): string {
  return `${lastFour === null ? "one" : `that ending in ${lastFour}`} works until ${formatTime(untilMs)}`;
}

function banText({ bannedUntilMs, bans }: ListedKey, ban: LatestChange | undefined): string {
  const now = bannedUntilMs === null ? "none in force" : `until ${formatTime(bannedUntilMs)}`;
  const last = ban === undefined ? "" : `; the last began ${formatTime(ban.atMs)}`;
  return `${now}${last}, ${bans} in the last ${BANS_COUNTED_DAYS} days`;
}

/** All that `show` prints of a key. */
export function detailsText(details: KeyDetails, where: string[]): string {
  const { key, changes, changeCount } = details;
  const days = details.days.slice(-SHOWN_DAYS);
  const earlier = details.days.slice(0, -SHOWN_DAYS).filter(isUsed).length;
  const today = days.at(-1);
  const { lastAdmittedMs, lastRefusedMs } = lastTimes(details.days);
  const facts = keyFacts(details);
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
  return `${key.id}  ${clipped(key.name)}

${factsText(facts)}

${tableOf(dayColumns(days), days)}${ofDays}

Changes (${ofChanges}):
${changes.length === 0 ? "none" : tableOf(changeColumns(false), changes)}`;
}
