// The bytes of a pet, an idempotency record, a key and a day of its usage in D1, which reports the size of a database in whole pages. Means over many
// rows, with indexes and the gaps that the order of insertion leaves.

import { PET_STORAGE } from "../../src/pets/columns.ts";
import { PETSTORE } from "../measure/implementations.ts";
import { progress, type Table, whole } from "../measure/report.ts";
import { startWorkers } from "../measure/workerd.ts";
import { addTablesAndPets } from "./pets.ts";

const ROWS = 100_000;

/** Ids begin after this one, as in a nearly full database, because larger ids take more bytes. */
const LAST_ID = 100_000_000;

/** A usual name of 20 characters, and one that takes the most bytes. */
const NAMES = ["A cat of twenty char", "🐈".repeat(255)] as const;

/** AUTOINCREMENT continues after the largest id ever used. */
const SKIP_IDS = `INSERT INTO pets (id, name, category_id) VALUES (${LAST_ID}, 'skipped', 1)`;

/** Adds ?1 pets with the name ?2. A quarter of them have no status. */
const INSERT_PETS = `
  INSERT INTO pets (name, category_id, status)
  WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < CAST(?1 AS INTEGER))
  SELECT ?2, 1 + n % 50, CASE n % 4 WHEN 0 THEN 'available' WHEN 1 THEN 'pending' WHEN 2 THEN 'sold' END FROM numbers`;

/** Adds ?1 keys. Their ids and hashes are random, as real ones are. */
const INSERT_KEYS = `
  INSERT INTO keys (id, name, folded_name, plan, hash, last_four, created_at_ms, bans_lifted_until_ms)
  WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < CAST(?1 AS INTEGER))
  SELECT 'key_' || substr(hex(randomblob(6)), 1, 12), ?2, lower(?2), 'pro', randomblob(32), 'abcd', 1795174620000 + n,
    1795174620000 + n FROM numbers`;

/** Adds a day of 100 for each of ?1 / 100 keys, in the order of days. */
const INSERT_USAGE = `
  INSERT INTO key_usage
    (day, key_id, object, revision, admitted, refused_by, busiest, last_admitted_ms, last_refused_ms)
  WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < CAST(?1 AS INTEGER) - 1)
  SELECT date('2026-11-20', printf('+%d days', n / 1000)), printf('key_%012d', n % 1000), lower(hex(randomblob(8))),
    1795174620000 + n, ?2 + n % 1000, '{"minute":100,"day":10}', '{"minute":300}', 1795174620000, 1795174620000
  FROM numbers`;

/** Adds idempotency records of ?1 pets, for 1,000 API keys. */
const INSERT_CREATIONS = `
  INSERT INTO creations (key_id, idempotency_hash, request_hash, pet_id, pet_json, created_at_ms)
  SELECT printf('key_%012d', id % 1000), randomblob(32), randomblob(32), id, ${PET_STORAGE.json},
    1795174620000 + id
  FROM pets ORDER BY id LIMIT CAST(?1 AS INTEGER)`;

export async function measureBytes(): Promise<Table> {
  const { workers, stop } = await startWorkers([PETSTORE]);
  try {
    const { pets, keys } = await workers[0].databases();
    await addTablesAndPets({ pets, keys }, 0);
    await pets.batch([pets.prepare(SKIP_IDS), pets.prepare("DELETE FROM pets")]);
    const rows: string[][] = [];
    for (const name of NAMES) {
      const pet = await bytesPerRow(pets, INSERT_PETS, name);
      const creation = await bytesPerRow(pets, INSERT_CREATIONS);
      rows.push([`a pet, name of ${Buffer.byteLength(name)} bytes`, pet, "with the index by status"]);
      rows.push(["its idempotency record", creation, ""]);
      await pets.batch(["creations", "pets"].map((table) => pets.prepare(`DELETE FROM ${table}`)));
    }
    rows.push(["a key", await bytesPerRow(keys, INSERT_KEYS, NAMES[0]), "name of 20 bytes"]);
    rows.push(["a day of a key's usage", await bytesPerRow(keys, INSERT_USAGE, 9_000), ""]);
    return { title: `bytes: stored in D1, mean of ${whole(ROWS)} rows`, columns: ["", "bytes", ""], rows };
  } finally {
    await stop();
  }
}

/** Adds rows. Returns by how much the database grows. */
async function bytesPerRow(database: D1Database, sql: string, ...values: unknown[]): Promise<string> {
  progress(`bytes: ${sql.trim().split("(")[0]?.trim()}`);
  const size = async () => (await database.prepare("SELECT 1").run()).meta.size_after;
  const before = await size();
  await database
    .prepare(sql)
    .bind(`${ROWS}`, ...values)
    .run();
  return (((await size()) - before) / ROWS).toFixed(1);
}
