// The operations of the command line on keys; they are not available over HTTP. A new secret is returned and not stored.

import { randomBase62 } from "../lib/base62.ts";
import { sha256 } from "../lib/sha256.ts";
import { PLAN_LIMITS, type Plan } from "../rate-limit/plans.ts";
import type { Limits } from "../rate-limit/windows.ts";
import { newSecret } from "./secret.ts";
import type { KeyRecord } from "./store.ts";
import { findKeyById, insertKey, replaceSecret, setPlan, setRevoked, stateOf } from "./store.ts";

/** 71 bits: collisions are negligible, and it is short enough to type. */
const ID_LENGTH = 12;

/** The name has 1 to 255 characters; `limits` are for enterprise only; the expiry must be in the future. */
export type NewKey = Pick<KeyRecord, "name" | "plan" | "expiresAtMs"> & { limits?: Limits };

/** The key does not exist, or its state does not permit the change. */
export type Unchanged = { ok: false; problem: "unknown" | "revoked" | "expired" };

type Outcome<More = unknown> = (More & { ok: true; key: KeyRecord }) | Unchanged;

/** Creates a key. The secret exists only in the returned value. */
export async function createKey(
  database: D1Database,
  newKey: NewKey,
  nowMs: number,
): Promise<{ key: KeyRecord; secret: string }> {
  const secret = newSecret();
  const key: KeyRecord = {
    ...newKey,
    id: `key_${randomBase62(ID_LENGTH)}`,
    limits: effectiveLimits(newKey.plan, newKey.limits),
    lastFour: secret.slice(-4),
    createdAtMs: nowMs,
    revokedAtMs: null,
  };
  await insertKey(database, key, sha256(secret));
  return { key, secret };
}

/** Revokes a key with all its secrets, also an expired one: its client is then told that it was revoked. */
export async function revokeKey(database: D1Database, id: string, nowMs: number): Promise<Outcome> {
  const key = await setRevoked(database, id, nowMs);
  return key === undefined ? whyUnchanged(database, id, nowMs) : { ok: true, key };
}

/** Gives a key a new secret. All earlier secrets end `graceMs` after `nowMs`, or before. */
export async function rotateKey(
  database: D1Database,
  id: string,
  graceMs: number,
  nowMs: number,
): Promise<Outcome<{ secret: string }>> {
  const secret = newSecret();
  const replacement = { hash: sha256(secret), lastFour: secret.slice(-4) };
  const key = await replaceSecret(database, id, replacement, nowMs + graceMs, nowMs);
  return key === undefined ? whyUnchanged(database, id, nowMs) : { ok: true, key, secret };
}

/** Changes the plan of a key; `limits` for enterprise only. Its current usage stays counted. */
export async function changePlan(
  database: D1Database,
  id: string,
  plan: Plan,
  limits: Limits | undefined,
  nowMs: number,
): Promise<Outcome> {
  const key = await setPlan(database, id, plan, effectiveLimits(plan, limits), nowMs);
  return key === undefined ? whyUnchanged(database, id, nowMs) : { ok: true, key };
}

async function whyUnchanged(database: D1Database, id: string, nowMs: number): Promise<Unchanged> {
  const key = await findKeyById(database, id);
  if (key === undefined) return { ok: false, problem: "unknown" };
  const state = stateOf(key, nowMs);
  if (state === "active") throw new Error(`${id} could not be changed, though it is active`);
  return { ok: false, problem: state };
}

function effectiveLimits(plan: Plan, limits: Limits | undefined): Limits {
  const effective = PLAN_LIMITS[plan] ?? limits;
  if (effective === undefined) throw new Error("an enterprise key needs limits of its own");
  return effective;
}
