// The kinds of change of a key: what each sets, which keys it may change, and how it is recorded. admin.ts makes the changes.
// Recorded values are texts for people: a plan with its limits, a name, the last four characters of a secret, or a time.

import { BANNED } from "../keys/object/ban-record.ts";
import { banEndMs } from "../keys/object/bans.ts";
import { limitsOf, PLANS_WITH_OWN_LIMITS, type Plan } from "../keys/plans.ts";
import { formatTime } from "../lib/rfc3339.ts";
import { sha256 } from "../lib/sha256.ts";
import type { Limits } from "../rate-limit/windows.ts";

/** A change of an existing key by an operator. In its SQL, ?1 is the id, ?2 the time of the change (Unix time in milliseconds). */
export interface Kind<Values extends unknown[]> {
  /** SQL: which keys it may change. */
  where: string;
  /** The columns that it sets, each with its SQL. */
  set: Record<string, string>;
  /** ?3 and following of `set`. */
  parameters(nowMs: number, ...values: Values): (string | number | null)[];
  /** SQL of the recorded earlier value. */
  from: string;
  /** The recorded new value. */
  to(...values: Values): string | null;
}

const kind = <Values extends unknown[]>(each: Kind<Values>) => each;

const NOT_REVOKED = "id = ?1 AND revoked_at_ms IS NULL";
export const ACTIVE = `${NOT_REVOKED} AND (expires_at_ms IS NULL OR expires_at_ms > ?2)`;

/** The end of the recorded ban that is in force. */
const BAN_IN_FORCE = `(
  SELECT max(to_value) FROM key_changes WHERE key_id = keys.id AND change = '${BANNED}'
  AND unixepoch(to_value) * 1000 > max(?2, ifnull(bans_lifted_until_ms, 0)))`;

export const KEY_CHANGES = {
  renamed: kind<[name: string]>({
    where: NOT_REVOKED,
    set: { name: "?3" },
    parameters: (_, name) => [name],
    from: "name",
    to: (name) => name,
  }),
  expiry: kind<[expiresAtMs: number | null]>({
    where: NOT_REVOKED,
    set: { expires_at_ms: "?3" },
    parameters: (_, expiresAtMs) => [expiresAtMs],
    from: "ifnull(strftime('%Y-%m-%dT%H:%M:%SZ', expires_at_ms / 1000, 'unixepoch'), 'never')",
    to: (expiresAtMs) => (expiresAtMs === null ? "never" : formatTime(expiresAtMs)),
  }),
  plan: kind<[plan: Plan, own: Limits | undefined]>({
    where: ACTIVE,
    set: { plan: "?3", per_minute: "?4", per_day: "?5" },
    parameters: (_, plan, own) => [plan, ...ownLimits(plan, own)],
    from: "plan || ifnull(' ' || per_minute || '/min ' || per_day || '/day', '')",
    to: planText,
  }),
  // All secrets that it replaces are good until `goodUntilMs` at most.
  rotated: kind<[secret: string, goodUntilMs: number | null]>({
    where: ACTIVE,
    set: { hash: "unhex(?3)", last_four: "?4" },
    parameters: (_, secret) => [sha256(secret), lastFourOf(secret)],
    from: "last_four",
    to: (secret, goodUntilMs) =>
      goodUntilMs === null
        ? lastFourOf(secret)
        : `${lastFourOf(secret)}, the old key works until ${formatTime(goodUntilMs)}`,
  }),
  revoked: kind<[]>({
    where: NOT_REVOKED,
    set: { revoked_at_ms: "?2" },
    parameters: () => [],
    from: "NULL",
    to: () => null,
  }),
  // Every ban that began before now, also one without a record. The clock of the object may be ahead, so the end of the recorded ban
  // counts too.
  unbanned: kind<[]>({
    where: ACTIVE,
    set: {
      bans_lifted_until_ms: `max(ifnull(bans_lifted_until_ms, 0), ?3, ifnull(unixepoch(${BAN_IN_FORCE}) * 1000, 0))`,
    },
    parameters: (nowMs) => [banEndMs(nowMs)],
    from: BAN_IN_FORCE,
    to: () => null,
  }),
};

/** A change that operators make to an existing key. */
export type OperatorChange = keyof typeof KEY_CHANGES;

/** What an operator gives for a change. */
export type ValuesOf<Name extends OperatorChange> =
  (typeof KEY_CHANGES)[Name] extends Kind<infer Values> ? Values : never;

/** Every name in the record of changes. A creation is recorded with its key, a ban by the key's object. */
export type KeyChange = OperatorChange | "created" | typeof BANNED;

/** The recorded value of a creation. */
export function creationText(plan: Plan, limits: Limits, expiresAtMs: number | null): string {
  const expires = expiresAtMs === null ? "" : `, expires ${formatTime(expiresAtMs)}`;
  return planText(plan, limits) + expires;
}

export const lastFourOf = (secret: string) => secret.slice(-4);

/** The limits to store: none if the code has those of the plan. Throws if the plan needs them. */
export function ownLimits(plan: Plan, limits: Limits | undefined): [number, number] | [null, null] {
  if (!PLANS_WITH_OWN_LIMITS.includes(plan)) return [null, null];
  const { minute, day } = effectiveLimits(plan, limits);
  return [minute, day];
}

/** The limits of a key of this plan. Throws if the plan needs limits of its own. */
export function effectiveLimits(plan: Plan, own: Limits | undefined): Limits {
  const limits = limitsOf(plan, own);
  if (limits === undefined) throw new Error(`a key of the plan ${plan} needs limits of its own`);
  return limits;
}

/** As the SQL of `plan`. */
function planText(plan: Plan, limits: Limits | undefined): string {
  const [minute, day] = ownLimits(plan, limits);
  return minute === null ? plan : `${plan} ${minute}/min ${day}/day`;
}
