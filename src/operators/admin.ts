// What operators do to keys, at the command line; none of it is available over HTTP. A new secret is returned and not stored.
//
// Every change is one batch, and Cloudflare's API does not document a batch to be a transaction. The row in the record of changes comes
// first, so an interrupted batch can be repeated, and no change lacks its row. A creation stores its keys first: an interrupted one can
// leave keys without a row, whose secrets nobody has.

import { read, write } from "../d1/statements.ts";
import type { Plan } from "../keys/plans.ts";
import { MAX_REPLACED_SECRETS, stateOf } from "../keys/record.ts";
import { newKeyId, newSecret } from "../keys/secret.ts";
import { sha256 } from "../lib/sha256.ts";
import type { Limits } from "../rate-limit/windows.ts";
import {
  ACTIVE,
  creationText,
  effectiveLimits,
  KEY_CHANGES,
  type KeyChange,
  type Kind,
  lastFourOf,
  type OperatorChange,
  ownLimits,
  type ValuesOf,
} from "./changes.ts";
import { findKeyById, type ListedKey } from "./records.ts";

/** Who makes a change, and when (Unix time in milliseconds). */
export interface Operator {
  by: string;
  nowMs: number;
}

/** `limits` are for plans whose keys have limits of their own; the expiry must be in the future. */
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

/** SQL: a key that has one of the names in ?1, and is not revoked. */
const NAMED = "revoked_at_ms IS NULL AND name IN (SELECT value ->> 'name' FROM json_each(?1))";

/** ?1: the keys as JSON, ?2: now. */
const insertKeys = (unlessNamed: boolean) => `
  INSERT INTO keys (id, name, plan, per_minute, per_day, last_four, created_at_ms, expires_at_ms, hash)
  SELECT value ->> 'id', value ->> 'name', value ->> 'plan', value ->> 'perMinute', value ->> 'perDay',
    value ->> 'lastFour', ?2, value ->> 'expiresAtMs', unhex(value ->> 'hash')
  FROM json_each(?1) ${unlessNamed ? `WHERE value ->> 'name' NOT IN (SELECT name FROM keys WHERE ${NAMED})` : ""}
  RETURNING id`;
const CREATED = "created" satisfies KeyChange;
const RECORD_CREATION = `
  INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by)
  SELECT keys.id, ?2, '${CREATED}', value ->> 'created', ?3 FROM json_each(?1) JOIN keys ON keys.id = value ->> 'id'`;

/** Creates keys in one batch. With `unlessNamed`, leaves out those whose name another key has that is not revoked. */
export async function createKeys(
  database: D1Database,
  newKeys: NewKey[],
  { by, nowMs }: Operator,
  { unlessNamed = false } = {},
): Promise<CreatedKey[]> {
  const created = newKeys.map((newKey) => {
    const id = newKeyId();
    const secret = newSecret(id);
    const limits = effectiveLimits(newKey.plan, newKey.limits);
    return { key: { ...newKey, id, limits, lastFour: lastFourOf(secret) }, secret };
  });
  const rows = created.map(({ key, secret }) => {
    const [perMinute, perDay] = ownLimits(key.plan, key.limits);
    const text = creationText(key.plan, key.limits, key.expiresAtMs);
    return { ...key, perMinute, perDay, created: text, hash: sha256(secret) };
  });
  const json = JSON.stringify(rows);
  const insert = database.prepare(insertKeys(unlessNamed)).bind(json, nowMs);
  const record = database.prepare(RECORD_CREATION).bind(json, nowMs, by);
  const [inserted] = await write(() => database.batch<{ id: string }>([insert, record]));
  const ids = new Set(inserted?.results.map(({ id }) => id));
  return created.filter(({ key }) => ids.has(key.id));
}

type NamedKey = Pick<ListedKey, "id" | "name" | "lastFour" | "createdAtMs">;

/** A key that is not revoked for each of the names that one has, by name. */
export async function findNamed(database: D1Database, names: string[]): Promise<Map<string, NamedKey>> {
  const sql = `SELECT id, name, last_four AS lastFour, created_at_ms AS createdAtMs FROM keys WHERE ${NAMED}`;
  const statement = database.prepare(sql).bind(JSON.stringify(names.map((name) => ({ name }))));
  const { results } = await read(() => statement.all<NamedKey>());
  return new Map(results.map((key) => [key.name, key]));
}

export async function createKey(
  database: D1Database,
  newKey: NewKey,
  operator: Operator,
): Promise<CreatedKey> {
  const [created] = await createKeys(database, [newKey], operator);
  if (created === undefined) throw new Error("no key was created");
  return created;
}

/** A function that makes changes of one kind. Its arguments: database, id of the key, values of the change, operator. */
function changer<Name extends OperatorChange>(name: Name) {
  return (database: D1Database, id: string, ...given: [...ValuesOf<Name>, Operator]): Promise<Outcome> =>
    change(database, id, name, given.slice(0, -1) as ValuesOf<Name>, given.at(-1) as Operator);
}

/** Revokes a key with all its secrets, also an expired one: its client is then told that it was revoked. */
export const revokeKey = changer("revoked");
export const renameKey = changer("renamed");
/** Moves the expiry of a key, also of an expired one, which is then active again. */
export const setExpiry = changer("expiry");
/** Changes the plan of a key. Its current usage stays counted. Throws if the plan needs limits of the key's own. */
export const changePlan = changer("plan");
/** Lifts the ban of a key, and every other that began before now. */
export const unbanKey = changer("unbanned");

/** Gives a key a new secret. All earlier secrets end `graceMs` after `nowMs`, or before. */
export async function rotateKey(
  database: D1Database,
  id: string,
  graceMs: number,
  operator: Operator,
): Promise<Outcome<{ secret: string }>> {
  const secret = newSecret(id);
  const goodUntilMs = operator.nowMs + graceMs;
  const changed = await change(
    database,
    id,
    "rotated",
    [secret, graceMs === 0 ? null : goodUntilMs],
    operator,
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

/** Records a change and makes it after the statements `before`, if the key's state permits it. */
async function change<Name extends OperatorChange>(
  database: D1Database,
  id: string,
  name: Name,
  values: ValuesOf<Name>,
  { by, nowMs }: Operator,
  ...before: D1PreparedStatement[]
): Promise<Outcome> {
  const { where, set, parameters, from, to } = KEY_CHANGES[name] as unknown as Kind<ValuesOf<Name>>;
  // A change to the value that the key already has is recorded too.
  const record = `
    INSERT INTO key_changes (key_id, at_ms, change, from_value, to_value, changed_by)
    SELECT id, ?2, '${name}', ${from}, ?3, ?4 FROM keys WHERE ${where}`;
  const columns = Object.entries(set).map(([column, sql]) => `${column} = ${sql}`);
  // SQLite rejects a bound parameter that does not occur, and not every change uses ?2.
  const update = `UPDATE keys SET ${columns.join(", ")} WHERE ${where} AND ?2 > 0 RETURNING id`;
  const results = await write(() =>
    database.batch([
      database.prepare(record).bind(id, nowMs, to(...values), by),
      ...before,
      database.prepare(update).bind(id, nowMs, ...parameters(nowMs, ...values)),
    ]),
  );
  const key = await findKeyById(database, id, nowMs);
  if (key === undefined) return { ok: false, problem: "unknown" };
  if (results.at(-1)?.results.length === 1) return { ok: true, key };
  const state = stateOf(key, nowMs);
  if (state === "active") throw new Error(`${id} could not be changed, though it is active`);
  return { ok: false, problem: state };
}
