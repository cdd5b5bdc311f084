// What `keys show` prints about one key. Its counts come from the running service (local) or from Cloudflare's log (production).

import { type UsageBody, usageBody } from "../../src/keys/usage/usage-body.ts";
import {
  BANS_COUNTED_DAYS,
  type ChangeRecord,
  findGraces,
  type ListedKey,
  listChanges,
} from "../../src/operators/records.ts";
import type { OpenDatabases, Target } from "../cloudflare/database.ts";
import { startLine } from "../cloudflare/target.ts";
import { messageOf } from "../lib/io.ts";
import { tableText } from "../lib/table.ts";
import { formatTime } from "../lib/time.ts";
import { type LoggedDay, queryKeyDays } from "../usage/telemetry.ts";
import { daysText, windowsText } from "../usage/text.ts";
import { changeJson, changeTable, keyJson, planText, printable, stateText } from "./text.ts";

const SHOWN_CHANGES = 20;
const SHOWN_DAYS = 7;

/** `windows` only if the object could be asked. `problem`: why there are no counts, or why they are not exact. */
interface Counts {
  windows?: Pick<UsageBody, "minute" | "day">;
  days?: UsageBody["days"] | LoggedDay[];
  problem?: string;
}

export interface KeyDetails {
  key: ListedKey;
  graces: number[];
  changes: ChangeRecord[];
  counts: Counts;
}

export async function readDetails(
  { database, objects }: { database: D1Database } & Pick<OpenDatabases, "objects">,
  key: ListedKey,
  target: Target,
  nowMs: number,
): Promise<KeyDetails> {
  const graces = await findGraces(database, key.id, nowMs);
  const changes = await listChanges(database, key.id, SHOWN_CHANGES);
  const counts = await readCounts(key, target, objects, nowMs).catch((error) => ({
    problem: `unknown: ${messageOf(error)}`,
  }));
  return { key, graces, changes, counts };
}

async function readCounts(
  { id }: ListedKey,
  target: Target,
  objects: OpenDatabases["objects"],
  nowMs: number,
): Promise<Counts> {
  if (target.kind === "production") {
    const { days, isIncomplete } = await queryKeyDays(id, SHOWN_DAYS, nowMs);
    return { days, ...(isIncomplete && { problem: "not exact, because Cloudflare left out log lines" }) };
  }
  if (objects === undefined)
    return { problem: "unknown: each preview counts for itself, and shows it at /usage" };
  const answer = await objects
    .getByName(id)
    .usage(id)
    .catch(() => undefined);
  if (answer === undefined)
    return {
      problem: `unknown: the local service counts, and it does not run: ${startLine(target)}`,
    };
  if ("unavailable" in answer || answer.record === null || answer.usage === undefined)
    return { problem: "unknown: the local service can't read this key" };
  const { plan } = answer.record;
  const { status, pastDays } = answer.usage;
  const { windows, bannedUntilMs } = status;
  const { minute, day, days } = usageBody(plan, windows, bannedUntilMs, pastDays);
  return { windows: { minute, day }, days: days.slice(-SHOWN_DAYS) };
}

export function detailsJson({ key, graces, changes, counts }: KeyDetails) {
  const { windows = null, days = null, problem = null } = counts;
  return {
    ...keyJson(key),
    graces: graces.map(formatTime),
    changes: changes.map(changeJson),
    windows,
    days,
    countsProblem: problem,
  };
}

/** What the heading, the plan and the state show. */
type ShownElsewhere = "id" | "name" | "limits" | "revokedAtMs" | "bannedUntilMs" | "bansLiftedUntilMs";

/** A line for each other field of a key. */
const FACTS: {
  [Field in Exclude<keyof ListedKey, ShownElsewhere>]: (key: ListedKey, graces: number[]) => [string, string];
} = {
  states: (key) => ["State", stateText(key)],
  plan: (key) => ["Plan", planText(key)],
  lastFour: (key) => ["Key", `ends in ${key.lastFour}`],
  createdAtMs: (key) => ["Created", formatTime(key.createdAtMs)],
  expiresAtMs: (key) => ["Expires", key.expiresAtMs === null ? "never" : formatTime(key.expiresAtMs)],
  graceUntilMs: (_, graces) => [
    "Old keys",
    graces.map((ms) => `valid until ${formatTime(ms)}`).join(", ") || "none valid",
  ],
  bans: (key) => ["Bans", `${key.bans} in the last ${BANS_COUNTED_DAYS} days`],
};

export function detailsText({ key, graces, changes, counts }: KeyDetails, nowMs: number): string {
  const { windows, days, problem } = counts;
  const facts = Object.values(FACTS).map((fact) => fact(key, graces).map((text) => printable(text)));
  const parts = [
    `${key.id}  ${printable(key.name)}`,
    tableText(facts),
    windows && windowsText(windows, nowMs),
    days && daysText(days),
    problem && `Counts: ${problem}`,
    `Changes (the latest ${SHOWN_CHANGES}):\n${changes.length === 0 ? "none" : changeTable(changes, false)}`,
  ];
  return parts.filter((part) => part !== undefined).join("\n\n");
}
