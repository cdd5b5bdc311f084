// Keys as the command line shows them, as text and as JSON. Never a secret.

import { limitsText, shortLimitsText, WINDOW_NAMES } from "../../src/keys/plans.ts";
import {
  BANS_COUNTED_DAYS,
  type ChangeRecord,
  type KeyOwner,
  type ListedKey,
} from "../../src/operators/records.ts";
import { csvLine } from "../lib/csv.ts";
import { printable as printableText } from "../lib/io.ts";
import { tableText } from "../lib/table.ts";
import { formatDate, formatTime } from "../lib/time.ts";

/** Of a key's name, in code points. */
export const MAX_NAME_LENGTH = 255;

export const timeOrNull = (ms: number | null) => (ms === null ? null : formatTime(ms));

/** A key in the output of `--json`, with all its fields. `state` is the main one of `states`. */
export function keyJson(key: ListedKey) {
  const { id, name, plan, limits, bans, states, ...more } = key;
  const {
    createdAtMs,
    expiresAtMs,
    revokedAtMs,
    suspendedAtMs,
    graceUntilMs,
    bannedUntilMs,
    bansLiftedUntilMs: _,
    hash: __,
    foundReplaced: ___,
    ...rest
  } = more;
  return {
    id,
    name,
    plan,
    ...Object.fromEntries(WINDOW_NAMES.map((name) => [`per${capitalize(name)}`, limits?.[name] ?? null])),
    ...rest,
    createdAt: formatTime(createdAtMs),
    expiresAt: timeOrNull(expiresAtMs),
    revokedAt: timeOrNull(revokedAtMs),
    suspendedAt: timeOrNull(suspendedAtMs),
    graceUntil: timeOrNull(graceUntilMs),
    bannedUntil: timeOrNull(bannedUntilMs),
    [`bansInLast${BANS_COUNTED_DAYS}Days`]: bans,
    state: states[0],
    states,
  };
}

/** The output of `list`. Refs have a column if one of the keys has a ref. */
export function keyTable(keys: ListedKey[]): string {
  const hasRefs = keys.some(({ ref }) => ref !== null);
  const header = ["ID", "NAME", ...(hasRefs ? ["REF"] : []), ..."PLAN/KEY/EXPIRES/STATE/BANS".split("/")];
  const rows = keys.map(({ id, name, ref, plan, limits, lastFour, foundReplaced, expiresAtMs, ...key }) => [
    id,
    printable(name),
    ...(hasRefs ? [printable(ref ?? "")] : []),
    `${plan} ${limits === undefined ? "without limits" : shortLimitsText(limits)}`,
    foundReplaced === null ? lastFour : `${lastFour} (${foundReplaced} was replaced)`,
    expiresAtMs === null ? "never" : formatTime(expiresAtMs).replace("T00:00:00Z", ""),
    stateText(key),
    // A key that is banned again and again stands out.
    ["", "1"][key.bans] ?? `${key.bans} TIMES`,
  ]);
  return tableText([header, ...rows]);
}

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
  return `since ${formatTime(suspendedAtMs ?? 0)}, for the reason "${printable(suspensionReason)}"`;
}

/** The changes of one key, or of several, which it names. */
export function changeTable(changes: ChangeRecord[], ofSeveral: boolean): string {
  const rows = changes.map(({ atMs, keyId, name, change, from, to, by }) => {
    const values = [from ?? "", to ?? "", by].map((value) => printable(value));
    const owner = ofSeveral ? [keyId, printable(name)] : [];
    return [formatTime(atMs), ...owner, change, ...values];
  });
  const header = ["TIME", ...(ofSeveral ? ["ID", "NAME"] : []), "CHANGE", "FROM", "TO", "BY"];
  return tableText([header, ...rows]);
}

export function changeJson({ atMs, keyId, ...change }: ChangeRecord) {
  return { at: formatTime(atMs), id: keyId, ...change };
}

/** Whose key it is: `key_0123456789Ab ("Jo's shop", ending in aB3d, created 2026-11-20)` */
export function keyOwner({ id, name, lastFour, createdAtMs }: KeyOwner): string {
  return `${id} ("${printable(name)}", ending in ${lastFour}, created ${formatDate(createdAtMs)})`;
}

/** Several keys: `12 keys (key_0123456789Ab "Jo's shop", …, and 9 more)` */
export function keyOwners(keys: ListedKey[]): string {
  const named = keys.map(({ id, name }) => `${id} "${printable(name)}"`);
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
  const named = `${key.id} ("${printable(key.name)}")`;
  if (key.revokedAtMs !== null) return `${named}: revoked`;
  const expiry = key.states.includes("expired") ? "expired" : "expires";
  const end = key.expiresAtMs === null ? "never expires" : `${expiry} ${formatTime(key.expiresAtMs)}`;
  return `${named}: ${stateText(key)}, ${planText(key)}, ${end}`;
}

export function planText({ plan, limits }: Pick<ListedKey, "plan" | "limits">): string {
  if (limits === undefined) return `${plan} plan, without limits`;
  return `${plan} plan, ${limitsText(limits)}`;
}

/** At most `max` characters, and no control or format characters, which could deceive the reader of a terminal. */
export function printable(text: string, max = MAX_NAME_LENGTH): string {
  const characters = [...printableText(text)];
  return characters.length > max ? `${characters.slice(0, max - 1).join("")}…` : characters.join("");
}
