// The page cache: which pages it keeps, and how many.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { cacheKey, PageCache } from "../../src/pets/page-cache.ts";
import type { PageQuery } from "../../src/pets/schema.ts";
import { watchStatements } from "../support/worker/database-stub.ts";

/** Stores so many pets with names of 100 characters, and returns queries of a page from each on. */
async function addPets(count: number): Promise<PageQuery[]> {
  const insert = env.DB.prepare("INSERT INTO pets (name, category_id) VALUES (?1, 1) RETURNING id");
  const name = "x".repeat(100);
  const added = await env.DB.batch<{ id: number }>(Array.from({ length: count }, () => insert.bind(name)));
  return added.flatMap(({ results }) => results.map(({ id }) => ({ limit: 1, cursor: BigInt(id) })));
}

/** Reads pages through a cache, and returns how many statements that took. */
function countReads(cache: PageCache) {
  const statements = watchStatements();
  return async (queries: PageQuery[]) => {
    statements.length = 0;
    for (const query of queries) await cache.get(env.DB, query);
    return statements.length;
  };
}

it("caches only a page that has a next page", async () => {
  const [page = { limit: 1 }] = await addPets(2);
  const read = countReads(new PageCache());
  expect(await read([page, page])).toBe(1);
  const last = { limit: 100, cursor: 2n ** 62n };
  expect(await read([last, last])).toBe(2);
});

it("evicts the oldest pages by their bytes", async () => {
  const pages = await addPets(4);
  // A page takes 500 bytes, and some 300 for its one pet: two fit.
  const read = countReads(new PageCache(2_000));
  expect(await read(pages.slice(0, 2))).toBe(2);
  expect(await read(pages.slice(0, 2))).toBe(0);
  expect(await read(pages.slice(2, 3))).toBe(1);
  expect(await read(pages.slice(1, 3))).toBe(0);
  expect(await read(pages.slice(0, 1))).toBe(1);
});

it("has another key for each query", () => {
  const queries = [
    { limit: 20 },
    { limit: 2 },
    { limit: 20, cursor: 0n },
    { limit: 20, status: "sold" as const },
  ];
  expect(new Set(queries.map(cacheKey)).size).toBe(4);
});
