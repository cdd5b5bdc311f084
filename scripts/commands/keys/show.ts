// npx petstore keys show: all about one key. Its counts come from the running service (local) or from Cloudflare's log (production).

import { type UsageBody, usageBody } from "../../../src/keys/usage/usage-body.ts";
import {
  BANS_COUNTED_DAYS,
  type ChangeRecord,
  findGraces,
  type ListedKey,
  listChanges,
} from "../../../src/operators/records.ts";
import type { OpenDatabases, Target } from "../../cloudflare/database.ts";
import { readTarget, startLine } from "../../cloudflare/target.ts";
import { findKey, warnOfPlans, withKeys } from "../../keys/context.ts";
import { AN_ID, COMMON, ID } from "../../keys/options.ts";
import { changeJson, changeTable, keyJson, planText, printable, stateText } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { messageOf } from "../../lib/io.ts";
import { tableText } from "../../lib/table.ts";
import { formatTime } from "../../lib/time.ts";
import { type LoggedDay, queryKeyDays } from "../../usage/telemetry.ts";
import { daysText, windowsText } from "../../usage/text.ts";

const SHOWN_CHANGES = 20;
const SHOWN_DAYS = 7;

export default defineCommand({
  arguments: [ID],
  options: COMMON,
  examples: [AN_ID, `${AN_ID} --remote`],
  handler: (io, options, id) =>
    withKeys(io, options, async (context) => {
      const { database, objects, operator } = context;
      const { nowMs } = operator;
      const key = await findKey(context, id);
      warnOfPlans(io, [key]);
      const details = {
        key,
        graces: await findGraces(database, id, nowMs),
        changes: await listChanges(database, id, SHOWN_CHANGES),
        counts: await readCounts(key, readTarget(options), objects, nowMs).catch((error) => ({
          problem: `unknown: ${messageOf(error)}`,
        })),
      };
      if (options.json) io.printJson(detailsJson(details));
      else io.print(detailsText(details, nowMs));
    }),
});

/** `windows` only if the object could be asked. `problem`: why there are no counts, or why they are not exact. */
interface Counts {
  windows?: Pick<UsageBody, "minute" | "day">;
  days?: UsageBody["days"] | LoggedDay[];
  problem?: string;
}

interface KeyDetails {
  key: ListedKey;
  graces: number[];
  changes: ChangeRecord[];
  counts: Counts;
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
  const { status, days: knownDays } = answer.usage;
  const { windows, bannedUntilMs } = status;
  const { minute, day, days } = usageBody(plan, windows, bannedUntilMs, knownDays);
  const shown = days.slice(-SHOWN_DAYS).map((each) => {
    return { ...each, refused: each.refusedByMinute + each.refusedByDay };
  });
  return { windows: { minute, day }, days: shown };
}

function detailsJson({ key, graces, changes, counts }: KeyDetails) {
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

function detailsText({ key, graces, changes, counts }: KeyDetails, nowMs: number): string {
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
