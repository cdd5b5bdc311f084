// What operators do to keys, at the command line; none of it is available over HTTP. A new secret is returned and not stored.
//
// Every change is one batch: its row in the record of changes, then the change. Cloudflare's API does not document a batch to be a
// transaction. In this order an interrupted batch is harmless: it can be repeated, and no change lacks its row.

import { write } from "../d1/statements.ts";
import { banEndMs } from "../keys/object/quota.ts";
import { PLAN_LIMITS, type Plan } from "../keys/plans.ts";
import { MAX_REPLACED_SECRETS, stateOf } from "../keys/record.ts";
import { newKeyId, newSecret } from "../keys/secret.ts";
import { formatTime } from "../lib/rfc3339.ts";
import { sha256 } from "../lib/sha256.ts";
import type { Limits } from "../rate-limit/windows.ts";
import { findKeyById, type ListedKey } from "./records.ts";

/** A statement's parameter has at most 2 MB. */
const KEYS_PER_STATEMENT = 500;

/** Who makes a change, and when (Unix time in milliseconds). */
export interface Operator {
  by: string;
  nowMs: number;
}

/** The name has 1 to 255 characters; `limits` are for enterprise only; the expiry must be in the future. */
export interface NewKey {
  name: string;
  plan: Plan;
  expiresAtMs: number | null;
  limits?: Limits;
}

/** Secrets exist only in this value. */
export type CreatedKey = { key: NewKey & { id: string; limits: Limits; lastFour: string }; secret: string };

/** The key does not exist, or its state does not permit the change. */
export type Unchanged = { ok: false; problem: "unknown" | "revoked" | "expired" };

type Outcome<More = unknown> = (More & { ok: true; key: ListedKey }) | Unchanged;

// ?1: the id, ?2: now.
const NOT_REVOKED = "id = ?1 AND revoked_at_ms IS NULL";
const ACTIVE = `${NOT_REVOKED} AND (expires_at_ms IS NULL OR expires_at_ms > ?2)`;

const INSERT_KEYS = `
  INSERT INTO keys (id, name, plan, per_minute, per_day, last_four, created_at_ms, expires_at_ms, hash)
  SELECT value ->> 'id', value ->> 'name', value ->> 'plan', value ->> 'perMinute', value ->> 'perDay',
    value ->> 'lastFour', ?2, value ->> 'expiresAtMs', unhex(value ->> 'hash')
  FROM json_each(?1)`;
const RECORD_CREATION = `
  INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by)
  SELECT value ->> 'id', ?2, 'created', value ->> 'created', ?3 FROM json_each(?1)`;

const SELECT_TIME = (column: string) =>
  `ifnull(strftime('%Y-%m-%dT%H:%M:%SZ', ${column} / 1000, 'unixepoch'), 'never')`;
const SELECT_PLAN = "plan || iif(plan = 'enterprise', ' ' || per_minute || '/min ' || per_day || '/day', '')";
/** The end of the recorded ban that is in force. */
const SELECT_BAN = `(
  SELECT max(to_value) FROM key_changes WHERE key_id = keys.id AND change = 'banned'
  AND unixepoch(to_value) * 1000 > max(?2, ifnull(bans_lifted_until_ms, 0)))`;

/** Creates keys. Throws if one violates the schema of the table; those before it may exist. */
export async function* createKeys(
  database: D1Database,
  newKeys: NewKey[],
  operator: Operator,
): AsyncGenerator<CreatedKey> {
  for (let start = 0; start < newKeys.length; start += KEYS_PER_STATEMENT) {
    const created = newKeys.slice(start, start + KEYS_PER_STATEMENT).map((newKey) => {
      const id = newKeyId();
      const secret = newSecret(id);
      const limits = effectiveLimits(newKey.plan, newKey.limits);
      return { key: { ...newKey, id, limits, lastFour: secret.slice(-4) }, secret };
    });
    await insertKeys(database, created, operator);
    yield* created;
  }
}

/** Stores keys under the SHA-256 of their secrets. */
export async function insertKeys(
  database: D1Database,
  keys: CreatedKey[],
  { by, nowMs }: Operator,
): Promise<void> {
  const rows = keys.map(({ key, secret }) => {
    const [perMinute, perDay] = ownLimits(key.plan, key.limits);
    const expires = key.expiresAtMs === null ? "" : `, expires ${formatTime(key.expiresAtMs)}`;
    const created = `${textOfPlan(key.plan, key.limits)}${expires}`;
    return { ...key, perMinute, perDay, created, hash: sha256(secret) };
  });
  const json = JSON.stringify(rows);
  const insert = database.prepare(INSERT_KEYS).bind(json, nowMs);
  const record = database.prepare(RECORD_CREATION).bind(json, nowMs, by);
  await write(() => database.batch([insert, record]));
}

/** Creates a key. */
export async function createKey(
  database: D1Database,
  newKey: NewKey,
  operator: Operator,
): Promise<CreatedKey> {
  for await (const created of createKeys(database, [newKey], operator)) return created;
  throw new Error("no key was created");
}

/** Revokes a key with all its secrets, also an expired one: its client is then told that it was revoked. */
export function revokeKey(database: D1Database, id: string, operator: Operator): Promise<Outcome> {
  const set = { where: NOT_REVOKED, set: "revoked_at_ms = ?2" };
  return change(database, id, operator, { change: "revoked", from: "NULL", to: null, ...set });
}

export function renameKey(
  database: D1Database,
  id: string,
  name: string,
  operator: Operator,
): Promise<Outcome> {
  const set = { where: NOT_REVOKED, set: "name = ?3", values: [name] };
  return change(database, id, operator, { change: "renamed", from: "name", to: name, ...set });
}

/** Moves the expiry of a key, also of an expired one, which is then active again. `expiresAtMs`: Unix time, or null for never. */
export function setExpiry(
  database: D1Database,
  id: string,
  expiresAtMs: number | null,
  operator: Operator,
): Promise<Outcome> {
  const to = expiresAtMs === null ? "never" : formatTime(expiresAtMs);
  const set = { where: NOT_REVOKED, set: "expires_at_ms = ?3", values: [expiresAtMs] };
  return change(database, id, operator, { change: "expiry", from: SELECT_TIME("expires_at_ms"), to, ...set });
}

/** Changes the plan of a key; `limits` for enterprise only. Its current usage stays counted. */
export function changePlan(
  database: D1Database,
  id: string,
  plan: Plan,
  limits: Limits | undefined,
  operator: Operator,
): Promise<Outcome> {
  const effective = effectiveLimits(plan, limits);
  const values = [plan, ...ownLimits(plan, effective)];
  const set = { where: ACTIVE, set: "plan = ?3, per_minute = ?4, per_day = ?5", values };
  const to = textOfPlan(plan, effective);
  return change(database, id, operator, { change: "plan", from: SELECT_PLAN, to, ...set });
}

/** Lifts the ban of a key, and every other that began before now. The object may have banned the key without a record of it. */
export function unbanKey(database: D1Database, id: string, operator: Operator): Promise<Outcome> {
  // The clock of the object may be ahead, so the end of the recorded ban counts too.
  const until = `max(ifnull(bans_lifted_until_ms, 0), ?3, ifnull(unixepoch(${SELECT_BAN}) * 1000, 0))`;
  const values = [banEndMs(operator.nowMs)];
  const set = { where: ACTIVE, set: `bans_lifted_until_ms = ${until}`, values };
  return change(database, id, operator, { change: "unbanned", from: SELECT_BAN, to: null, ...set });
}

/** Gives a key a new secret. All earlier secrets end `graceMs` after `nowMs`, or before. */
export async function rotateKey(
  database: D1Database,
  id: string,
  graceMs: number,
  operator: Operator,
): Promise<Outcome<{ secret: string }>> {
  const secret = newSecret(id);
  const lastFour = secret.slice(-4);
  const goodUntilMs = operator.nowMs + graceMs;
  const to = graceMs === 0 ? lastFour : `${lastFour}, the old key works until ${formatTime(goodUntilMs)}`;
  const set = { where: ACTIVE, set: "hash = unhex(?3), last_four = ?4", values: [sha256(secret), lastFour] };
  const changed = await change(
    database,
    id,
    operator,
    { change: "rotated", from: "last_four", to, ...set },
    // All graces end with the new one, and the current secret gets it too.
    database.prepare(SHORTEN_GRACES).bind(id, operator.nowMs, goodUntilMs),
    database.prepare(KEEP_REPLACED).bind(id, operator.nowMs, goodUntilMs),
    database.prepare(FORGET_OLDEST).bind(id),
  );
  return changed.ok ? { ...changed, secret } : changed;
}

const SHORTEN_GRACES = `
  UPDATE replaced_secrets SET good_until_ms = ?3
  WHERE key_id = (SELECT id FROM keys WHERE ${ACTIVE}) AND good_until_ms > ?3`;
const KEEP_REPLACED = `
  INSERT OR REPLACE INTO replaced_secrets (hash, key_id, good_until_ms) SELECT hash, id, ?3 FROM keys WHERE ${ACTIVE}`;

/** Of more replaced secrets, those that end last are kept; of those that end together, the one that is being replaced. */
const FORGET_OLDEST = `
  DELETE FROM replaced_secrets WHERE key_id = ?1 AND hash NOT IN (
    SELECT hash FROM replaced_secrets WHERE key_id = ?1 
    ORDER BY good_until_ms DESC, hash = (SELECT hash FROM keys WHERE id = ?1) DESC LIMIT ${MAX_REPLACED_SECRETS})`;

/** A change of a row. `from` is the SQL of the earlier value, `values` are ?3 and following in `set`. */
interface KeyChange {
  change: string;
  from: string;
  to: string | null;
  where: string;
  set: string;
  values?: (string | number | null)[];
}

/** Records a change and makes it, if the key's state permits it. */
async function change(
  database: D1Database,
  id: string,
  { by, nowMs }: Operator,
  { change: name, from, to, where, set, values = [] }: KeyChange,
  ...before: D1PreparedStatement[]
): Promise<Outcome> {
  // Also of a value that the key already has: after a restore, it decides that the value stays.
  const record = `
    INSERT INTO key_changes (key_id, at_ms, change, from_value, to_value, changed_by)
    SELECT id, ?2, '${name}', ${from}, ?3, ?4 FROM keys WHERE ${where}`;
  // Each bound parameter has to occur, also ?2.
  const update = `UPDATE keys SET ${set} WHERE ${where} AND ?2 > 0 RETURNING id`;
  const results = await write(() =>
    database.batch([
      database.prepare(record).bind(id, nowMs, to, by),
      ...before,
      database.prepare(update).bind(id, nowMs, ...values),
    ]),
  );
  const key = await findKeyById(database, id, nowMs);
  if (key === undefined) return { ok: false, problem: "unknown" };
  if (results.at(-1)?.results.length === 1) return { ok: true, key };
  const state = stateOf(key, nowMs);
  if (state === "active") throw new Error(`${id} could not be changed, though it is active`);
  return { ok: false, problem: state };
}

/** As SELECT_PLAN. */
function textOfPlan(plan: Plan, { minute, day }: Limits): string {
  return plan === "enterprise" ? `${plan} ${minute}/min ${day}/day` : plan;
}

/** The limits to store: only for enterprise, because the code has those of the other plans. */
function ownLimits(plan: Plan, { minute, day }: Limits): [number, number] | [null, null] {
  return plan === "enterprise" ? [minute, day] : [null, null];
}

function effectiveLimits(plan: Plan, limits: Limits | undefined): Limits {
  const effective = PLAN_LIMITS[plan] ?? limits;
  if (effective === undefined) throw new Error("an enterprise key needs limits of its own");
  return effective;
}
