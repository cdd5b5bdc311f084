// The kinds of change of a key: what each sets, which keys it may change, and how it is recorded. admin.ts makes the changes.
// Recorded values are texts for people: a plan with its limits, a name, the last four characters of a secret, or a time.

import type { Access } from "../keys/key.ts";
import {
  forEachWindow,
  type Limits,
  limitsOf,
  PLANS_WITH_OWN_LIMITS,
  type Plan,
  shortLimitsText,
} from "../keys/plans.ts";
import { BANNED } from "../keys/reports.ts";
import { formatTime } from "../lib/rfc3339.ts";
import { sha256 } from "../lib/sha256.ts";
import { banEndMs } from "../limits/index.ts";
import { foldName } from "./names.ts";

/**
 * A change of an existing key by an operator. In its SQL, ?1 is the id, ?2 the time of the change (Unix time in milliseconds), ?3 the
 * hash of the secret that the operator has confirmed, or null, ?4 and following are its `parameters`.
 */
export interface Kind<Values extends unknown[]> {
  /** SQL: which keys it may change. */
  where: string;
  /** SQL: whether it changes anything of such a key. If not, nothing is written and nothing recorded. */
  differs: string;
  /** The columns that it sets, each with its SQL. */
  set: Record<string, string>;
  parameters(nowMs: number, ...values: Values): Parameters;
  /** The same in a full database, where no row may become longer. A change without it fails there. */
  parametersIfFull?(nowMs: number, ...values: Values): Parameters;
  /** SQL of the recorded earlier value. */
  from: string;
  /** The recorded new value. */
  to(...values: Values): string | null;
}

type Parameters = (string | number | null)[];

const kind = <Values extends unknown[]>(each: Kind<Values>) => each;

/** A time that takes no room in a row, as NULL: for what happened at a time that a full database can't store. */
const AT_SOME_TIME_MS = 1;

const CONFIRMED = "id = ?1 AND hash = ifnull(unhex(?3), hash)";
export const NOT_REVOKED = `${CONFIRMED} AND revoked_at_ms IS NULL`;
export const NOT_ENDED = `${NOT_REVOKED} AND (expires_at_ms IS NULL OR expires_at_ms > ?2)`;

const timeText = (ms: string) => `strftime('%Y-%m-%dT%H:%M:%SZ', ${ms} / 1000, 'unixepoch')`;
const SUSPENDED_SINCE = timeText(`nullif(suspended_at_ms, ${AT_SOME_TIME_MS})`);

/** The end of the recorded ban that is in force. */
const BAN_IN_FORCE = `(
  SELECT max(to_value) FROM key_changes WHERE key_id = keys.id AND change = '${BANNED}'
  AND unixepoch(to_value) * 1000 > max(?2, ifnull(bans_lifted_until_ms, 0)))`;

/** Why a key is suspended; NULL if it is not, and for a suspension that a full database could not record. */
export const SUSPENSION_REASON = `(
  SELECT to_value FROM key_changes WHERE key_id = keys.id AND change = 'suspended' AND at_ms = suspended_at_ms
  ORDER BY key_changes.id DESC LIMIT 1)`;

export const KEY_CHANGES = {
  renamed: kind<[name: string]>({
    where: NOT_REVOKED,
    differs: "name <> ?4",
    set: { name: "?4", folded_name: "?5" },
    parameters: (_, name) => [name, foldName(name)],
    from: "name",
    to: (name) => name,
  }),
  ref: kind<[ref: string | null]>({
    where: NOT_REVOKED,
    differs: "ref IS NOT ?4",
    set: { ref: "?4" },
    parameters: (_, ref) => [ref],
    from: "ref",
    to: (ref) => ref,
  }),
  note: kind<[note: string | null]>({
    where: NOT_REVOKED,
    differs: "note IS NOT ?4",
    set: { note: "?4", folded_note: "?5" },
    parameters: (_, note) => [note, note && foldName(note)],
    from: "note",
    to: (note) => note,
  }),
  expiry: kind<[expiresAtMs: number | null]>({
    where: NOT_REVOKED,
    differs: "expires_at_ms IS NOT ?4",
    set: { expires_at_ms: "?4" },
    parameters: (_, expiresAtMs) => [expiresAtMs],
    from: `ifnull(${timeText("expires_at_ms")}, 'never')`,
    to: (expiresAtMs) => (expiresAtMs === null ? "never" : formatTime(expiresAtMs)),
  }),
  plan: kind<[plan: Plan, own: Limits | undefined]>({
    where: NOT_ENDED,
    differs: "plan <> ?4 OR limits IS NOT ?5",
    set: { plan: "?4", limits: "?5" },
    parameters: (_, plan, own) => [plan, ownLimits(plan, own)],
    from: "concat_ws(' ', plan, (SELECT group_concat(value || '/' || key, ' ') FROM json_each(limits)))",
    to: planText,
  }),
  // 1 and NULL take no room in a row.
  access: kind<[access: Access]>({
    where: NOT_REVOKED,
    differs: "read_only IS NOT ?4",
    set: { read_only: "?4" },
    parameters: (_, access) => [readOnly(access)],
    parametersIfFull: (_, access) => [readOnly(access)],
    from: "iif(read_only = 1, 'read', 'write')",
    to: (access) => access,
  }),
  // All secrets that it replaces are good until `goodUntilMs` at most.
  rotated: kind<[secret: string, goodUntilMs: number | null]>({
    where: NOT_ENDED,
    differs: "true",
    set: { hash: "unhex(?4)", last_four: "?5" },
    parameters: (_, secret) => [sha256(secret), lastFourOf(secret)],
    from: "last_four",
    to: (secret, goodUntilMs) =>
      goodUntilMs === null
        ? lastFourOf(secret)
        : `${lastFourOf(secret)}, the old key works until ${formatTime(goodUntilMs)}`,
  }),
  // The replaced secrets that are still good end; the row of the key stays as it is. Those of a revoked key have ended with it.
  grace: kind<[]>({
    where: CONFIRMED,
    differs:
      "revoked_at_ms IS NULL AND EXISTS (SELECT 1 FROM replaced_secrets WHERE key_id = keys.id AND good_until_ms > ?2)",
    set: { last_four: "last_four" },
    parameters: () => [],
    parametersIfFull: () => [],
    from: `(SELECT ${timeText("max(good_until_ms)")} FROM replaced_secrets WHERE key_id = keys.id AND good_until_ms > ?2)`,
    to: () => "ended",
  }),
  // A suspension for another reason stays, unless the operator `replaces` it: a bulk resumption goes by the reason.
  suspended: kind<[reason: string, replaces: boolean]>({
    where: `${NOT_REVOKED} AND (?6 OR suspended_at_ms IS NULL OR ${SUSPENSION_REASON} IS ?5)`,
    differs: `suspended_at_ms IS NULL OR ${SUSPENSION_REASON} IS NOT ?5`,
    set: { suspended_at_ms: "?4" },
    parameters: (nowMs, reason, replaces) => [nowMs, reason, Number(replaces)],
    parametersIfFull: (_, reason, replaces) => [AT_SOME_TIME_MS, reason, Number(replaces)],
    from: SUSPENSION_REASON,
    to: (reason) => reason,
  }),
  // `reason`: only the suspension that was recorded with exactly this text; null for any.
  resumed: kind<[reason: string | null]>({
    where: `${NOT_REVOKED} AND (?4 IS NULL OR suspended_at_ms IS NULL OR ${SUSPENSION_REASON} IS ?4)`,
    differs: "suspended_at_ms IS NOT NULL",
    set: { suspended_at_ms: "NULL" },
    parameters: (_, reason) => [reason],
    parametersIfFull: (_, reason) => [reason],
    from: SUSPENDED_SINCE,
    to: () => null,
  }),
  revoked: kind<[]>({
    where: CONFIRMED,
    differs: "revoked_at_ms IS NULL",
    set: { revoked_at_ms: "?4" },
    parameters: (nowMs) => [nowMs],
    parametersIfFull: () => [AT_SOME_TIME_MS],
    from: "NULL",
    to: () => null,
  }),
  // Every ban that began before now, also one without a record, of which only the object knows: so it writes even if no ban is recorded,
  // because a ban that was wrongly thought lifted would go on for minutes. The clock of the object may be ahead, so the end of the recorded ban
  // counts too. A row has room for the time, because a new key has its creation there.
  unbanned: kind<[]>({
    where: NOT_ENDED,
    differs: "true",
    set: {
      bans_lifted_until_ms: `max(ifnull(bans_lifted_until_ms, 0), ?4, ifnull(unixepoch(${BAN_IN_FORCE}) * 1000, 0))`,
    },
    parameters: (nowMs) => [banEndMs(nowMs)],
    parametersIfFull: (nowMs) => [banEndMs(nowMs)],
    from: BAN_IN_FORCE,
    to: () => null,
  }),
};

/** `limits` are for plans whose keys have limits of their own; the expiry must be in the future; a key may write by default. */
export interface NewKey {
  name: string;
  plan: Plan;
  expiresAtMs: number | null;
  limits?: Limits;
  access?: Access | undefined;
  /** The id of the customer in the operator's own system. */
  ref?: string | null;
  note?: string | null;
}

/** A change that operators make to an existing key. */
export type OperatorChange = keyof typeof KEY_CHANGES;

/** What an operator gives for a change. */
export type ValuesOf<Name extends OperatorChange> =
  (typeof KEY_CHANGES)[Name] extends Kind<infer Values> ? Values : never;

const CREATED = "created";
/** Every name in the record of changes. A creation is recorded with its key, a ban by the key's object. */
export type KeyChange = OperatorChange | typeof CREATED | typeof BANNED;
export const CHANGE_NAMES = [CREATED, ...(Object.keys(KEY_CHANGES) as OperatorChange[]), BANNED] as const;

/** The recorded value of a creation. */
export function creationText(newKey: NewKey): string {
  const { plan, limits, access, expiresAtMs, ref = null, note = null } = newKey;
  return [
    planText(plan, limits),
    ...(access === "read" ? ["read-only"] : []),
    ...(expiresAtMs === null ? [] : [`expires ${formatTime(expiresAtMs)}`]),
    ...(ref === null ? [] : [`ref ${ref}`]),
    ...(note === null ? [] : [`note ${note}`]),
  ].join(", ");
}

/** How access is stored. */
export const readOnly = (access: Access) => (access === "read" ? 1 : null);

export const lastFourOf = (secret: string) => secret.slice(-4);

/** The limits to store, as JSON: none if the code has those of the plan. Throws if the plan needs them. */
export function ownLimits(plan: Plan, limits: Limits | undefined): string | null {
  if (!PLANS_WITH_OWN_LIMITS.includes(plan)) return null;
  const own = effectiveLimits(plan, limits);
  return JSON.stringify(forEachWindow((name) => own[name]));
}

/** The limits of a key of this plan. Throws if the plan needs limits of its own. */
export function effectiveLimits(plan: Plan, own: Limits | undefined): Limits {
  const limits = limitsOf(plan, own);
  if (limits === undefined) throw new Error(`a key of the plan ${plan} needs limits of its own`);
  return limits;
}

/** A plan, with the limits that are the key's own. As the SQL of `plan`. */
export function planText(plan: string, limits: Limits | undefined): string {
  const isOwn = limits !== undefined && PLANS_WITH_OWN_LIMITS.includes(plan);
  return isOwn ? `${plan} ${shortLimitsText(limits)}` : plan;
}
