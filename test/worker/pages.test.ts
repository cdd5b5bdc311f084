// Pagination: rows read at any depth, order and next links. int64.test.ts walks through all pages, and list-parameters.test.ts has each
// parameter.

import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { PageCache } from "../../src/pets/page-cache.ts";
import { selectPage } from "../../src/pets/store.ts";
import { watchStatements } from "../support/worker/bindings.ts";
import { type Client, invalidatePageCache, newClient, nextPath, ORIGIN } from "../support/worker/client.ts";

const INSERT_MANY = `
  WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < ?1)
  INSERT INTO pets (id, name, category_id, status)
  SELECT n, 'pet ' || n, n, CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN 'available' WHEN 2 THEN 'pending' ELSE 'sold' END
  FROM series`;

async function fillWith(count: number) {
  invalidatePageCache();
  await env.PETS_DB.exec("DELETE FROM pets");
  await env.PETS_DB.prepare(INSERT_MANY).bind(count).run();
}

let client: Client;

beforeEach(async () => {
  client = await newClient();
});

const idsIn = (page: string) => (JSON.parse(page) as { id: number }[]).map(({ id }) => id);

it("a page of a large table holds the pets after its cursor, and reads at most limit + 1 rows", async () => {
  await fillWith(10_000);
  for (const status of [undefined, "sold"] as const) {
    for (const limit of [1, 100]) {
      for (const cursor of [undefined, 5_000n, 9_999n, 20_000n]) {
        const { meta } = await selectPage(env.PETS_DB, { limit, status, cursor }).all();
        // Not 0 either: that would mean that the figure is not measured.
        expect(meta.rows_read).toBeLessThanOrEqual(limit + 1);
        if (cursor === undefined || cursor < 9_000n) expect(meta.rows_read).toBe(limit + 1);
      }
    }
  }
  const response = await client.get(`/v1/pets?limit=100&cursor=${encodeCursor(7_001n)}&status=sold`);
  const sold = Array.from({ length: 100 }, (_, index) => 7_003 + 4 * index);
  expect(idsIn(await response.text())).toEqual(sold);
  const [first] = idsIn(await (await client.get(nextPath(response) ?? "")).text());
  expect(first).toBe(7_403);
});

it("the next link is absolute, and has no unknown parameter", async () => {
  await fillWith(50);
  const linkOf = async (path: string) => {
    const link = (await client.get(path)).headers.get("Link") ?? "";
    return link.replace(/cursor=[\w-]+/, "cursor=…");
  };
  expect(await linkOf("/v1/pets?utm=1&limit=2&status=sold&limitless=5")).toBe(
    `<${ORIGIN}/v1/pets?limit=2&status=sold&cursor=…>; rel="next"`,
  );
  expect(await linkOf("/v1/pets")).toBe(`<${ORIGIN}/v1/pets?limit=20&cursor=…>; rel="next"`);
  expect(idsIn(await (await client.get("/v1/pets")).text())).toHaveLength(20);
});

it("the page cache evicts the oldest pages by their bytes", async () => {
  await fillWith(5);
  // A page takes 500 bytes, and some 140 for its one pet: two fit.
  const cache = new PageCache(1_400);
  const statements = watchStatements("PETS_DB");
  for (const cursor of [1n, 2n, 1n, 2n, 3n, 2n, 3n, 1n]) await cache.get(env.PETS_DB, { limit: 1, cursor });
  expect(statements).toHaveLength(4);
});
