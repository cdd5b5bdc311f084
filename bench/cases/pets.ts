// The contents of a database before a measurement: the service's tables, pets, and a key whose limits no load reaches.

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { createKey } from "../../src/keys/admin.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { randomBase62 } from "../../src/lib/base62.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import { MAX_LIMIT } from "../../src/rate-limit/plans.ts";

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

const INSERT_KEY = `
  INSERT INTO keys (id, name, plan, per_minute, per_day, hash, last_four, created_at_ms)
  VALUES ('key_bench', 'bench', 'enterprise', ?1, ?1, unhex(?2), ?3, 1)`;

const INSERT_KEYS = `
  INSERT INTO keys (id, name, plan, per_minute, per_day, hash, last_four, created_at_ms)
  SELECT value ->> 'id', 'bench', 'enterprise', ?1, ?1, unhex(value ->> 'hash'), value ->> 'lastFour', 1
  FROM json_each(?2)`;

/** Fills an empty database. Returns the secret of its key. */
export async function fillD1(database: D1Database, pets: number): Promise<string> {
  await addTablesAndPets(database, pets);
  return newKey(database, NO_LIMIT);
}

/** Adds tables and pets to an empty database. The pets are the same each time. */
export async function addTablesAndPets(database: D1Database, pets: number): Promise<void> {
  for (const sql of await migrations()) {
    const statements = sql.split(/;\s*$/m).filter((each) => each.trim() !== "");
    await database.batch(statements.map((each) => database.prepare(each)));
  }
  for (let first = 1; first <= pets; first += PETS_PER_STATEMENT) {
    const last = Math.min(pets, first + PETS_PER_STATEMENT - 1);
    await database.prepare(INSERT_PETS).bind(`${first}`, `${last}`).run();
  }
}

/** Creates a key with this limit per minute and per day. Returns its secret. */
export async function newKey(database: D1Database, limit: number): Promise<string> {
  return (await newKeyWithId(database, limit)).secret;
}

/** Like newKey, but also returns the id. */
export async function newKeyWithId(
  database: D1Database,
  limit: number,
): Promise<{ id: string; secret: string }> {
  const limits = { minute: limit, day: limit };
  const options = { name: "bench", plan: "enterprise", limits, expiresAtMs: null } as const;
  const { key, secret } = await createKey(database, options, { by: "bench", nowMs: Date.now() });
  return { id: key.id, secret };
}

/** Creates keys with limits that no load reaches. */
export async function newKeys(
  database: D1Database,
  count: number,
): Promise<{ id: string; secret: string }[]> {
  const keys = Array.from({ length: count }, () => ({ id: `key_${randomBase62(12)}`, secret: newSecret() }));
  const rows = keys.map(({ id, secret }) => ({ id, hash: sha256(secret), lastFour: secret.slice(-4) }));
  await database.prepare(INSERT_KEYS).bind(`${NO_LIMIT}`, JSON.stringify(rows)).run();
  return keys;
}

/** Like fillD1, for a database in this process. */
export async function fillSqlite(database: DatabaseSync, pets: number): Promise<string> {
  for (const sql of await migrations()) database.exec(sql);
  database.prepare(INSERT_PETS).run(1, pets);
  const secret = newSecret();
  database.prepare(INSERT_KEY).run(NO_LIMIT, sha256(secret), secret.slice(-4));
  return secret;
}

async function migrations(): Promise<string[]> {
  const folder = join(import.meta.dirname, "../../migrations");
  const files = (await readdir(folder)).filter((file) => file.endsWith(".sql")).sort();
  return Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
}
