// The contents of databases before a measurement: the service's tables, pets, and a key whose limits no load reaches.

import { migrate } from "../../scripts/cloudflare/database.ts";
import { forEachWindow } from "../../src/keys/plans.ts";
import { MAX_LIMIT } from "../../src/limits/windows.ts";
import { createKey, createKeys } from "../../src/operators/admin.ts";
import type { NewKey } from "../../src/operators/changes.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import type { Databases } from "../measure/workerd.ts";

/** A limit that no load reaches. */
export const NO_LIMIT = MAX_LIMIT;

/** D1 ends a statement after 30 s. */
const PETS_PER_STATEMENT = 100_000;

/** Adds the pets ?1 to ?2. Names have equal lengths, so pages of the same size differ only by the digits of the ids. */
const INSERT_PETS = `
  INSERT INTO pets (name, category_id, status)
  WITH RECURSIVE numbers (n) AS (SELECT CAST(?1 AS INTEGER) UNION ALL SELECT n + 1 FROM numbers WHERE n < CAST(?2 AS INTEGER))
  SELECT printf('Pet %07d', n), 1 + n % 50, CASE n % 4 WHEN 0 THEN 'available' WHEN 1 THEN 'pending' WHEN 2 THEN 'sold' END
  FROM numbers`;

const OPERATOR = { by: "bench", nowMs: Date.now() };

/** The service finds a key by its id, baselines by this index. */
const INDEX_KEYS = "CREATE INDEX keys_by_hash ON keys (hash)";

/** Fills empty databases. Returns the secret of a key. */
export async function fillD1(databases: Databases, pets: number): Promise<string> {
  await addTablesAndPets(databases, pets);
  return newKey(databases.keys, NO_LIMIT);
}

/** Adds tables and pets to empty databases. The pets are the same each time. */
export async function addTablesAndPets({ pets, keys }: Databases, count: number): Promise<void> {
  await migrate(pets, "pets");
  await migrate(keys, "keys");
  if (keys === pets) await keys.prepare(INDEX_KEYS).run();
  for (let first = 1; first <= count; first += PETS_PER_STATEMENT) {
    const last = Math.min(count, first + PETS_PER_STATEMENT - 1);
    await pets.prepare(INSERT_PETS).bind(`${first}`, `${last}`).run();
  }
}

/** The path of the page that begins with the pet `firstId`. */
export function pagePath(firstId: number, limit: number): string {
  return `/v1/pets?limit=${limit}&cursor=${encodeCursor(BigInt(firstId))}`;
}

/** Creates a key with this limit per minute and per day. Returns its secret. */
export async function newKey(keys: D1Database, limit: number): Promise<string> {
  return (await createKey(keys, keyWith(limit), OPERATOR)).secret;
}

/** Creates keys with limits that no load reaches. Returns their secrets. */
export async function newKeys(keys: D1Database, count: number): Promise<string[]> {
  const created = await createKeys(keys, Array(count).fill(keyWith(NO_LIMIT)), OPERATOR);
  return created.map(({ secret }) => secret);
}

function keyWith(limit: number): NewKey {
  return { name: "bench", plan: "enterprise", limits: forEachWindow(() => limit), expiresAtMs: null };
}
