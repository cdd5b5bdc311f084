// What operators do to keys, at the command line; none of it is available over HTTP. A new secret is returned and not stored.
//
// Every change is one batch, and Cloudflare's API does not document a batch to be a transaction. The row in the record of changes comes
// first, so an interrupted batch can be repeated, and no change lacks its row. A creation stores its keys first: an interrupted one can
// leave keys without a row, whose secrets nobody has. In a full database, the changes that incidents need are made without their row.

import { DatabaseFull, write } from "../d1/statements.ts";
import { MAX_REPLACED_SECRETS, stateOf } from "../keys/key.ts";
import { newKeyId, newSecret } from "../keys/secret.ts";
import { sha256 } from "../lib/sha256.ts";
import {
  creationText,
  effectiveLimits,
  KEY_CHANGES,
  type KeyChange,
  type Kind,
  lastFourOf,
  type NewKey,
  NOT_ENDED,
  NOT_REVOKED,
  type OperatorChange,
  ownLimits,
  readOnly,
  type ValuesOf,
} from "./changes.ts";
import { foldName } from "./names.ts";
import { type LatestChange, type ListedKey, latestChanges, listedKeys, selectKeys } from "./records.ts";

/** Who makes a change, and when (Unix time in milliseconds). */
export interface Operator {
  by: string;
  nowMs: number;
  /** The hash of the secret that was current when the operator confirmed: nothing is changed if another one has replaced it. */
  confirmedHash?: string;
}

/** Secrets exist only in this value. */
export type CreatedKey = { key: ListedKey; secret: string };

/**
 * The key does not exist, its state does not permit the change, it is suspended for another reason than the given one, or its secret is
 * not the confirmed one: `rotation` replaced that.
 */
export type Refused =
  | { ok: false; problem: "unknown" | "revoked" | "expired" }
  | { ok: false; problem: "other reason"; key: ListedKey }
  | { ok: false; problem: "rotated"; rotation: LatestChange | undefined };

/** `isChanged` is false if the key was as wished already: nothing was written. `isRecorded` is false if the database is full. */
type Accepted = { ok: true; key: ListedKey; isChanged: boolean; isRecorded: boolean };

export type Outcome<More = unknown> = (More & Accepted) | Refused;

/** ?1: the keys as JSON, ?2: now. */
const insertKeys = (unlessNamed: boolean) => `
  INSERT INTO keys (id, name, folded_name, ref, note, folded_note, plan, limits, read_only, last_four, created_at_ms,
    bans_lifted_until_ms, expires_at_ms, hash)
  SELECT value ->> 'id', value ->> 'name', value ->> 'folded', value ->> 'ref', value ->> 'note', value ->> 'foldedNote',
    value ->> 'plan', value ->> 'limits', value ->> 'readOnly', value ->> 'lastFour', ?2, ?2, value ->> 'expiresAtMs', unhex(value ->> 'hash')
  FROM json_each(?1)
  ${unlessNamed ? "WHERE NOT EXISTS (SELECT 1 FROM keys WHERE folded_name = value ->> 'folded')" : ""}`;
const CREATED = "created" satisfies KeyChange;
const RECORD_CREATION = `
  INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by)
  SELECT keys.id, ?2, '${CREATED}', value ->> 'created', ?3 FROM json_each(?1) JOIN keys ON keys.id = value ->> 'id'`;

/** Creates keys in one batch. With `unlessNamed`, leaves out those whose name another key has, also a revoked one. */
export async function createKeys(
  database: D1Database,
  newKeys: NewKey[],
  { by, nowMs }: Operator,
  { unlessNamed = false } = {},
): Promise<CreatedKey[]> {
  const secrets = new Map<string, string>();
  const rows = newKeys.map((newKey) => {
    const { name, plan, expiresAtMs, limits: own, access = "write", ref = null, note = null } = newKey;
    const id = newKeyId();
    const secret = newSecret(id);
    secrets.set(id, secret);
    const limits = effectiveLimits(plan, own);
    const created = creationText({ ...newKey, limits });
    const ofSecret = { lastFour: lastFourOf(secret), hash: sha256(secret) };
    return {
      id,
      name,
      folded: foldName(name),
      ref,
      note,
      foldedNote: note && foldName(note),
      plan,
      limits: ownLimits(plan, limits),
      readOnly: readOnly(access),
      expiresAtMs,
      created,
      ...ofSecret,
    };
  });
  const json = JSON.stringify(rows);
  const insert = database.prepare(insertKeys(unlessNamed)).bind(json, nowMs);
  const record = database.prepare(RECORD_CREATION).bind(json, nowMs, by);
  const selection = selectKeys(database, nowMs, { ids: [...secrets.keys()] });
  const results = await write(() => database.batch([insert, record, selection]));
  const keys = new Map(listedKeys(results.at(-1) as D1Result).keys.map((key) => [key.id, key]));
  return [...secrets].flatMap(([id, secret]) => {
    const key = keys.get(id);
    return key ? [{ key, secret }] : [];
  });
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

/** Refuses a key with all its secrets until it is resumed. It can still be changed, and rotated. Reasons are compared exactly. */
export const suspendKey = changer("suspended");
/** Ends a suspension: only one for `reason`, as it was recorded, unless that is null. */
export const resumeKey = changer("resumed");
/** Revokes a key with all its secrets, also an expired one: its client is then told that it was revoked. */
export const revokeKey = changer("revoked");
export const renameKey = changer("renamed");
/** Sets or removes (null) the id of the customer in the operator's own system. */
export const setRef = changer("ref");
/** Sets or removes (null) the note. */
export const setNote = changer("note");
/** Moves the expiry of a key, also of an expired one, which is then active again. */
export const setExpiry = changer("expiry");
/** Changes the plan of a key. Its current usage stays counted. Throws if the plan needs limits of the key's own. */
export const changePlan = changer("plan");
/** Lets a key only read, or write too. */
export const changeAccess = changer("access");
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
    {
      before: [
        // All graces end with the new one, and the current secret gets it too.
        database.prepare(shortenGraces(NOT_ENDED)).bind(...firstOf(id, operator), goodUntilMs),
        database.prepare(KEEP_REPLACED).bind(...firstOf(id, operator), goodUntilMs),
        database.prepare(FORGET_OLDEST).bind(id),
      ],
    },
  );
  return changed.ok ? { ...changed, secret } : changed;
}

/** Ends the replaced secrets of a key. The current one goes on. */
export function endGraces(database: D1Database, id: string, operator: Operator): Promise<Outcome> {
  const shorten = database.prepare(shortenGraces(NOT_REVOKED));
  const after = [shorten.bind(...firstOf(id, operator), operator.nowMs)];
  return change(database, id, "grace", [], operator, { after });
}

const shortenGraces = (where: string) => `
  UPDATE replaced_secrets SET good_until_ms = ?4
  WHERE key_id = (SELECT id FROM keys WHERE ${where} AND ?2 > 0) AND good_until_ms > ?4`;
const KEEP_REPLACED = `
  INSERT OR REPLACE INTO replaced_secrets (hash, last_four, key_id, good_until_ms)
  SELECT hash, last_four, id, ?4 FROM keys WHERE ${NOT_ENDED}`;

/** Of more replaced secrets, those that end last are kept; of those that end together, the one that is being replaced. */
const FORGET_OLDEST = `
  DELETE FROM replaced_secrets WHERE key_id = ?1 AND hash NOT IN (
    SELECT hash FROM replaced_secrets WHERE key_id = ?1 
    ORDER BY good_until_ms DESC, hash = (SELECT hash FROM keys WHERE id = ?1) DESC LIMIT ${MAX_REPLACED_SECRETS})`;

/** Records a change and makes it between other statements, if the key's state permits it and if it changes anything. */
async function change<Name extends OperatorChange>(
  database: D1Database,
  id: string,
  name: Name,
  values: ValuesOf<Name>,
  operator: Operator,
  { before = [], after = [] }: { before?: D1PreparedStatement[]; after?: D1PreparedStatement[] } = {},
): Promise<Outcome> {
  const { by, nowMs, confirmedHash } = operator;
  const { where, differs, set, parameters, parametersIfFull, from, to } = KEY_CHANGES[
    name
  ] as unknown as Kind<ValuesOf<Name>>;
  type Parameters = ReturnType<typeof parameters>;
  // SQLite rejects a bound parameter that does not occur, and no change uses all of them in each statement.
  const withAll = (sql: string, given: Parameters) => {
    const bound = [...firstOf(id, operator), ...given];
    const all = bound.map((_, index) => `?${index + 1}`);
    return database.prepare(`WITH parameters AS (VALUES (${all})) ${sql}`).bind(...bound);
  };
  const columns = Object.entries(set).map(([column, sql]) => `${column} = ${sql}`);
  const record = (given: Parameters) => {
    const next = firstOf(id, operator).length + given.length + 1;
    const sql = `
      INSERT INTO key_changes (key_id, at_ms, change, from_value, to_value, changed_by)
      SELECT id, ?2, '${name}', ${from}, ?${next}, ?${next + 1} FROM keys WHERE ${where} AND (${differs})`;
    return withAll(sql, [...given, to(...values), by]);
  };
  // The key is read in the same call: a change whose key is not seen would look like one that failed.
  const selection = selectKeys(database, nowMs, { ids: [id] });
  const making = (given: Parameters) => [
    ...before,
    withAll(`SELECT id FROM keys WHERE ${where}`, given),
    withAll(`UPDATE keys SET ${columns} WHERE ${where} AND (${differs}) RETURNING id`, given),
    ...after,
    selection,
  ];
  let isRecorded = true;
  const given = parameters(nowMs, ...values);
  const results = await write(() => database.batch([record(given), ...making(given)])).catch((error) => {
    if (!(error instanceof DatabaseFull) || parametersIfFull === undefined) throw error;
    isRecorded = false;
    return write(() => database.batch(making(parametersIfFull(nowMs, ...values))));
  });
  const [permitted, updated] = results.slice(-3 - after.length) as [D1Result, D1Result];
  const [key] = listedKeys(results.at(-1) as D1Result).keys;
  if (key === undefined) return { ok: false, problem: "unknown" };
  const isChanged = updated.results.length === 1;
  if (isChanged || permitted.results.length === 1) return { ok: true, key, isChanged, isRecorded };
  if (confirmedHash !== undefined && key.hash !== confirmedHash)
    return { ok: false, problem: "rotated", rotation: (await latestChanges(database, id)).rotated };
  const state = stateOf({ ...key, suspendedAtMs: null }, nowMs);
  if (state === "revoked") return { ok: false, problem: state };
  if (name === "resumed" || name === "suspended") return { ok: false, problem: "other reason", key };
  if (state === "expired") return { ok: false, problem: state };
  throw new Error(`${id} could not be changed, though it is ${state}`);
}

/** The first parameters of the statements of a change: see Kind. */
function firstOf(id: string, { nowMs, confirmedHash }: Operator) {
  return [id, nowMs, confirmedHash ?? null] as const;
}
