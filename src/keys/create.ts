// Makes keys, for the command line: the Worker never does, because there is no way to get a key over HTTP.
// A secret is made here, handed to the caller, and forgotten.

import type { Limits } from "../rate-limit/window.ts";
import { PLAN_LIMITS, type Plan } from "./plans.ts";
import { hashSecret, newSecret, randomBase62 } from "./secret.ts";
import { insertKey, type KeyRecord } from "./store.ts";

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

/** Makes a key and stores it. The secret is nowhere but in the returned value. */
export async function createKey(
  database: D1Database,
  { name, plan, limits, expiresAtMs }: NewKey,
  nowMs: number,
): Promise<{ key: KeyRecord; secret: string }> {
  const effective = PLAN_LIMITS[plan] ?? limits;
  if (effective === undefined) throw new Error("an enterprise key needs limits of its own");
  const secret = newSecret();
  const key: KeyRecord = {
    id: `key_${randomBase62(ID_LENGTH)}`,
    name,
    plan,
    limits: effective,
    lastFour: secret.slice(-4),
    createdAtMs: nowMs,
    expiresAtMs,
  };
  await insertKey(database, key, await hashSecret(secret));
  return { key, secret };
}
