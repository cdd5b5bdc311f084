// The page cache: which pages it keeps, and how many.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { ALL, NONE } from "../../src/lib/optimizations.ts";
import { cacheKey, PageCache } from "../../src/pets/page-cache.ts";
import { watchStatements } from "../support/worker/database-stub.ts";

/** Stores so many pets with names of 100 characters. */
async function addPets(count: number): Promise<void> {
  const insert = env.DB.prepare("INSERT INTO pets (name, category_id) VALUES (?1, 1)").bind("x".repeat(100));
  await env.DB.batch(Array.from({ length: count }, () => insert));
}

it("caches only a page that has a next page, and none without the optimization", async () => {
  await addPets(2);
  const statements = watchStatements();
  const cache = new PageCache(ALL);
  for (let times = 0; times < 2; times += 1) await cache.get(env.DB, { limit: 1 });
  expect(statements).toHaveLength(1);
  for (let times = 0; times < 2; times += 1) await cache.get(env.DB, { limit: 100, cursor: 2n ** 62n });
  expect(statements).toHaveLength(3);
  const uncached = new PageCache(NONE);
  for (let times = 0; times < 2; times += 1) await uncached.get(env.DB, { limit: 1 });
  expect(statements).toHaveLength(5);
});

it("evicts the oldest pages by their bytes", async () => {
  await addPets(4);
  // A page takes 500 bytes, and some 300 for its one pet.
  const cache = new PageCache(ALL, 2_000);
  const statements = watchStatements();
  const read = async (...cursors: bigint[]) => {
    statements.length = 0;
    for (const cursor of cursors) await cache.get(env.DB, { limit: 1, cursor });
    return statements.length;
  };
  expect(await read(1n, 2n)).toBe(2);
  expect(await read(1n, 2n)).toBe(0);
  expect(await read(3n)).toBe(1);
  expect(await read(2n, 3n)).toBe(0);
  expect(await read(1n)).toBe(1);
});

it("has another key for each query", () => {
  const keys = [
    { limit: 20 },
    { limit: 2 },
    { limit: 20, cursor: 0n },
    { limit: 20, status: "sold" as const },
  ].map(cacheKey);
  expect(new Set(keys).size).toBe(4);
});
