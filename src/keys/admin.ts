// What an operator does with keys, for the command line: the Worker never does it, because there is no way to it over
// HTTP. A secret is made here, handed to the caller, and forgotten.

import { randomBase62 } from "../lib/base62.ts";
import { sha256 } from "../lib/sha256.ts";
import { PLAN_LIMITS, type Plan } from "../rate-limit/plans.ts";
import type { Limits } from "../rate-limit/windows.ts";
import { newSecret } from "./secret.ts";
import {
  findKeyById,
  insertKey,
  type KeyRecord,
  replaceSecret,
  setPlan,
  setRevoked,
  stateOf,
} from "./store.ts";

/** 71 bits: enough never to meet twice, short enough to type. */
const ID_LENGTH = 12;

export interface NewKey {
  /** 1 to 255 characters, for people. */
  name: string;
  plan: Plan;
  /** For enterprise, and only for it. */
  limits?: Limits;
  /** Unix time in milliseconds, later than now; null: never. */
  expiresAtMs: number | null;
}

/** Why nothing was changed: there is no such key, or it is not in a state for that. */
export interface Unchanged {
  ok: false;
  problem: "unknown" | "revoked" | "expired";
}

export type Changed = { ok: true; key: KeyRecord };

/** Makes a key and stores it. The secret is nowhere but in the returned value. */
export async function createKey(
  database: D1Database,
  { name, plan, limits, expiresAtMs }: NewKey,
  nowMs: number,
): Promise<{ key: KeyRecord; secret: string }> {
  const secret = newSecret();
  const key: KeyRecord = {
    id: `key_${randomBase62(ID_LENGTH)}`,
    name,
    plan,
    limits: effectiveLimits(plan, limits),
    lastFour: lastFourOf(secret),
    createdAtMs: nowMs,
    expiresAtMs,
    revokedAtMs: null,
  };
  await insertKey(database, key, sha256(secret));
  return { key, secret };
}

/** Ends a key for good, with all its secrets. An expired one too: its holder is then told so. */
export async function revokeKey(
  database: D1Database,
  id: string,
  nowMs: number,
): Promise<Changed | Unchanged> {
  const key = await setRevoked(database, id, nowMs);
  return key === undefined ? whyUnchanged(database, id, nowMs) : { ok: true, key };
}

/**
 * Gives a key a new secret. The one until now, and any that is still in its grace, ends `graceMs` after `nowMs` or
 * earlier: when that time is over, only the new one is good.
 */
export async function rotateKey(
  database: D1Database,
  id: string,
  graceMs: number,
  nowMs: number,
): Promise<(Changed & { secret: string }) | Unchanged> {
  const secret = newSecret();
  const replacement = { hash: sha256(secret), lastFour: lastFourOf(secret) };
  const key = await replaceSecret(database, id, replacement, nowMs + graceMs, nowMs);
  return key === undefined ? whyUnchanged(database, id, nowMs) : { ok: true, key, secret };
}

/** Puts a key on another plan; `limits` for enterprise, and only for it. What it has used up stays used up. */
export async function changePlan(
  database: D1Database,
  id: string,
  plan: Plan,
  limits: Limits | undefined,
  nowMs: number,
): Promise<Changed | Unchanged> {
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

function lastFourOf(secret: string): string {
  return secret.slice(-4);
}
