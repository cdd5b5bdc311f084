// Keys as the command line shows them, as text and as JSON. Never a secret.

import { limitsText, shortLimitsText, WINDOW_NAMES } from "../../src/keys/plans.ts";
import {
  BANS_COUNTED_DAYS,
  type ChangeRecord,
  type KeyOwner,
  type ListedKey,
} from "../../src/operators/records.ts";
import { csvLine } from "../lib/csv.ts";
import { printable } from "../lib/io.ts";
import { type Column, jsonOf } from "../lib/report.ts";
import { formatDate, formatTime } from "../lib/time.ts";

/** Of a key's name, in code points. */
export const MAX_NAME_LENGTH = 255;

/** A key in the output of `--json`, with all its fields. `state` is the main one of `states`. */
export function keyJson(key: ListedKey) {
  const { limits, bans, states, bansLiftedUntilMs: _, hash: __, foundReplaced: ___, ...rest } = key;
  const perWindow = WINDOW_NAMES.map((name) => [`per${capitalize(name)}`, limits?.[name] ?? null]);
  const counted = { [`bansInLast${BANS_COUNTED_DAYS}Days`]: bans };
  return { ...jsonOf(rest), ...Object.fromEntries(perWindow), ...counted, state: states[0], states };
}

/** The table of `list`. */
export const LIST_COLUMNS: Column<ListedKey>[] = [
  { title: "ID", of: ({ id }) => id },
  { title: "NAME", of: ({ name }) => name },
  { title: "REF", of: ({ ref }) => ref ?? "" },
  {
    title: "PLAN",
    of: ({ plan, limits }) => `${plan} ${limits === undefined ? "without limits" : shortLimitsText(limits)}`,
  },
  {
    title: "KEY",
    of: ({ lastFour, foundReplaced }) =>
      foundReplaced === null ? lastFour : `${lastFour} (${foundReplaced} was replaced)`,
  },
  {
    title: "EXPIRES",
    of: ({ expiresAtMs }) =>
      expiresAtMs === null ? "never" : formatTime(expiresAtMs).replace("T00:00:00Z", ""),
  },
  { title: "STATE", of: stateText },
  // A key that is banned again and again stands out.
  { title: "BANS", of: ({ bans }) => ["", "1"][bans] ?? `${bans} TIMES` },
];

/** The header of a file of new secrets, of which each has a `secretLine`. */
export const SECRETS_HEADER = "name,id,key";

export function secretLine({ id, name }: Pick<ListedKey, "id" | "name">, secret: string): string {
  return csvLine([name, id, secret]);
}

/** `active, expiring`, or `banned until` and a time. */
export function stateText({ states, bannedUntilMs }: Pick<ListedKey, "states" | "bannedUntilMs">): string {
  const until = bannedUntilMs === null ? "" : ` until ${formatTime(bannedUntilMs)}`;
  return states.join(", ").replace("banned", `banned${until}`);
}

/** Since when and why a key is suspended. */
export function suspensionText({ suspendedAtMs, suspensionReason }: ListedKey): string {
  if (suspensionReason === null) return "its time and reason are not recorded, because the database was full";
  return `since ${formatTime(suspendedAtMs ?? 0)}, for the reason "${clipped(suspensionReason)}"`;
}

/** The table of changes of one key, or of several, which it names. */
export function changeColumns(ofSeveral: boolean): Column<ChangeRecord>[] {
  const whose: Column<ChangeRecord>[] = [
    { title: "ID", of: ({ id }) => id },
    { title: "NAME", of: ({ name }) => name },
  ];
  return [
    { title: "TIME", of: ({ atMs }) => formatTime(atMs) },
    ...(ofSeveral ? whose : []),
    { title: "CHANGE", of: ({ change }) => change },
    { title: "FROM", of: ({ from }) => from ?? "" },
    { title: "TO", of: ({ to }) => to ?? "" },
    { title: "BY", of: ({ by }) => by },
  ];
}

/** Whose key it is: `key_0123456789Ab ("Jo's shop", ending in aB3d, created 2026-11-20)` */
export function keyOwner({ id, name, lastFour, createdAtMs }: KeyOwner): string {
  return `${id} ("${clipped(name)}", ending in ${lastFour}, created ${formatDate(createdAtMs)})`;
}

/** Several keys: `12 keys (key_0123456789Ab "Jo's shop", …, and 9 more)` */
export function keyOwners(keys: ListedKey[]): string {
  const named = keys.map(({ id, name }) => `${id} "${clipped(name)}"`);
  return `${counted(keys.length, "key")} (${someOf(named, 3)})`;
}

/** The first items, and how many more there are. */
export function someOf(items: string[], max: number): string {
  const more = items.length > max ? [`and ${items.length - max} more`] : [];
  return [...items.slice(0, max), ...more].join(", ");
}

/** `Minute` */
export function capitalize(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

/** `--per-minute and --per-day` */
export function listOf(words: readonly string[]): string {
  return new Intl.ListFormat("en-GB").format(words);
}

/** `1 key`, `2 keys` */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** `key_0123456789Ab ("Jo's shop"): active, free plan, 60 requests per minute, 1000 per day, never expires` */
export function keyAndPlan(key: ListedKey): string {
  const named = `${key.id} ("${clipped(key.name)}")`;
  if (key.revokedAtMs !== null) return `${named}: revoked`;
  const expiry = key.states.includes("expired") ? "expired" : "expires";
  const end = key.expiresAtMs === null ? "never expires" : `${expiry} ${formatTime(key.expiresAtMs)}`;
  return `${named}: ${stateText(key)}, ${planPhrase(key)}, ${end}`;
}

export function planPhrase({ plan, limits }: Pick<ListedKey, "plan" | "limits">): string {
  if (limits === undefined) return `${plan} plan, without limits`;
  return `${plan} plan, ${limitsText(limits)}`;
}

/** At most `max` characters, and no control or format characters, which could deceive the reader of a terminal. */
export function clipped(text: string, max = MAX_NAME_LENGTH): string {
  const characters = [...printable(text)];
  return characters.length > max ? `${characters.slice(0, max - 1).join("")}…` : characters.join("");
}
