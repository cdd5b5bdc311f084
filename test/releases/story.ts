// Everything that this version does with the database, once through: each function of the stores, with what lies at the
// edges of the schema, twice where a second time is something else. A recording (recording.ts) is what it sends, and what
// comes back. What is stored early is read again late, because a migration may come anywhere between.
//
// Times, ids and hashes are fixed, so the same code sends the same each time; no secret of a key exists here, only the
// hashes of words. scripts/database.ts, which asks for migrations, is not in it: that table is wrangler's, not ours.

import { rejects } from "node:assert/strict";
import { INT64_MAX, INT64_MIN } from "../../src/int64.ts";
import { MAX_LIMIT, PLAN_LIMITS, type Plan } from "../../src/keys/plans.ts";
import {
  findKeyByHash,
  findKeyById,
  insertKey,
  listKeys,
  replaceSecret,
  setPlan,
  setRevoked,
} from "../../src/keys/store.ts";
import { forgetOldCreations, insertPetOnce, KEPT_MS } from "../../src/pets/creations.ts";
import { findPage, findPet, insertPet } from "../../src/pets/store.ts";
import type { Limits } from "../../src/rate-limit/window.ts";
import { sha256 } from "../../src/sha256.ts";

/** What is done, in the third person, and how. */
type Step = [does: string, run: (database: D1Database) => Promise<unknown>];

const NOW_MS = Date.UTC(2026, 10, 20, 12, 34, 56, 789);
const SOON_MS = NOW_MS + 60_000;
const NEXT_DAY_MS = NOW_MS + KEPT_MS;

const LONGEST_NAME = "🐢".repeat(255);
const LONGEST_IDEMPOTENCY_KEY = "~".repeat(255);
const LEAST: Limits = { minute: 1, day: 1 };
const MOST: Limits = { minute: MAX_LIMIT, day: MAX_LIMIT };

const ZOE = { name: "Zoë", categoryId: 2n, status: "available" } as const;
const REX = { name: "Rex", categoryId: 1n };

export const STORY: Step[] = [
  ["reads a list without pets", (database) => findPage(database, { limit: 20 })],
  ["lists no keys", listKeys],
  ["makes a key on the free plan", (database) => makeKey(database, "free", "free", null)],
  ["makes a key on the pro plan that ends", (database) => makeKey(database, "pro", "pro", NOW_MS + 1)],
  ["makes a key on the business plan", (database) => makeKey(database, "business", "business", SOON_MS)],
  ["makes a key with the least limits", (database) => makeKey(database, "least", "enterprise", null, LEAST)],
  [
    "makes a key with the longest name",
    (database) => makeKey(database, LONGEST_NAME, "enterprise", null, MOST),
  ],
  ["finds a key", (database) => findKeyByHash(database, hashOf("free"))],
  ["finds a key with limits of its own", (database) => findKeyByHash(database, hashOf("least"))],
  ["finds no key", (database) => findKeyByHash(database, hashOf("guess"))],

  ["adds a pet", (database) => insertPet(database, ZOE)],
  ["adds the same pet again", (database) => insertPet(database, ZOE)],
  ["adds a pet without a status", (database) => insertPet(database, REX)],
  ["adds a pet at the edges", (database) => addPet(database, LONGEST_NAME, INT64_MAX, "pending")],
  ["adds a pet at the other edges", (database) => addPet(database, "'", INT64_MIN, "sold")],
  ["adds a pet that may be sent again", (database) => addOnce(database, "1", ZOE, NOW_MS)],
  ["adds it no second time", (database) => addOnce(database, "1", ZOE, SOON_MS)],
  [
    "adds one with the longest Idempotency-Key",
    (database) => addOnce(database, LONGEST_IDEMPOTENCY_KEY, REX, SOON_MS),
  ],
  ["refuses another with the same Idempotency-Key", (database) => refuseReuse(database, "1", REX, SOON_MS)],

  ["rotates a key with a grace", (database) => rotate(database, "free", "second", SOON_MS)],
  ["rotates it again, with a shorter one", (database) => rotate(database, "free", "third", NOW_MS)],
  ["finds the key by a replaced secret", (database) => findKeyByHash(database, hashOf("free"))],
  ["finds the key by its current secret", (database) => findKeyByHash(database, hashOf("third"))],
  ["rotates no unknown key", (database) => rotate(database, "unknown", "fourth", NOW_MS)],
  ["puts a key on the enterprise plan", (database) => putOn(database, "free", "enterprise", MOST)],
  ["puts it on the pro plan", (database) => putOn(database, "free", "pro")],
  ["puts a key on the business plan", (database) => putOn(database, "least", "business")],
  ["puts a key on the free plan", (database) => putOn(database, "business", "free")],
  ["puts an expired key on no plan", (database) => putOn(database, "pro", "free", LEAST, NOW_MS + 1)],
  ["revokes a key", (database) => setRevoked(database, idOf("business"), NOW_MS)],
  ["revokes it no second time", (database) => setRevoked(database, idOf("business"), SOON_MS)],
  ["rotates no revoked key", (database) => rotate(database, "business", "fifth", SOON_MS)],
  ["finds the revoked key", (database) => findKeyByHash(database, hashOf("business"))],
  ["finds a key by its id", (database) => findKeyById(database, idOf("free"))],
  ["finds no key by an id", (database) => findKeyById(database, idOf("unknown"))],
  ["lists the keys", listKeys],

  ["finds a pet", (database) => findPet(database, 4n)],
  ["finds no pet", (database) => findPet(database, INT64_MAX)],
  ["reads the first page", (database) => findPage(database, { limit: 3 })],
  ["reads the next page", (database) => findPage(database, { limit: 3, cursor: 4n })],
  ["reads a page of what is available", (database) => findPage(database, { limit: 1, status: "available" })],
  [
    "reads the next of those",
    (database) => findPage(database, { limit: 1, status: "available", cursor: 2n }),
  ],
  ["reads what is pending", (database) => findPage(database, { limit: 20, status: "pending" })],
  ["reads what is sold", (database) => findPage(database, { limit: 20, status: "sold" })],

  ["forgets no creation", (database) => forgetOldCreations(database, NOW_MS)],
  ["adds another pet a day later", (database) => addOnce(database, "1", REX, NEXT_DAY_MS)],
  ["forgets a creation", (database) => forgetOldCreations(database, SOON_MS + KEPT_MS)],
  ["reads the longest page", (database) => findPage(database, { limit: 100 })],
];

function idOf(name: string): string {
  return `key_${sha256(name).slice(0, 12)}`;
}

function hashOf(word: string): string {
  return sha256(`not a secret: ${word}`);
}

function makeKey(
  database: D1Database,
  name: string,
  plan: Plan,
  expiresAtMs: number | null,
  limits = limitsOf(plan),
): Promise<void> {
  const key = { id: idOf(name), name, plan, limits, lastFour: "last", expiresAtMs, revokedAtMs: null };
  return insertKey(database, { ...key, createdAtMs: NOW_MS }, hashOf(name));
}

function rotate(database: D1Database, name: string, word: string, goodUntilMs: number): Promise<unknown> {
  return replaceSecret(database, idOf(name), { hash: hashOf(word), lastFour: "next" }, goodUntilMs, NOW_MS);
}

function putOn(
  database: D1Database,
  name: string,
  plan: Plan,
  limits = limitsOf(plan),
  nowMs = NOW_MS,
): Promise<unknown> {
  return setPlan(database, idOf(name), plan, limits, nowMs);
}

function limitsOf(plan: Plan): Limits {
  return PLAN_LIMITS[plan] ?? LEAST;
}

function addPet(database: D1Database, name: string, categoryId: bigint, status: "pending" | "sold") {
  return insertPet(database, { name, categoryId, status });
}

function addOnce(database: D1Database, idempotencyKey: string, pet: typeof ZOE | typeof REX, nowMs: number) {
  return insertPetOnce(database, pet, { keyId: idOf("free"), idempotencyKey }, nowMs);
}

function refuseReuse(database: D1Database, idempotencyKey: string, pet: typeof REX, nowMs: number) {
  return rejects(addOnce(database, idempotencyKey, pet, nowMs), { code: "idempotency_key_reused" });
}
