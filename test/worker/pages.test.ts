// Pages: rows read at any depth, order, next links, and ids at the edges of int64, which are exact in paths, bodies, cursors and storage.
// list-parameters.test.ts has each parameter, test/e2e/fuzz.test.ts categories at the edges.

import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../src/lib/int64.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { PageCache } from "../../src/pets/page-cache.ts";
import { selectPage } from "../../src/pets/store.ts";
import { watchStatements } from "../support/worker/bindings.ts";
import {
  type Client,
  invalidatePageCache,
  newClient,
  nextPath,
  ORIGIN,
  walk,
} from "../support/worker/client.ts";

const INSERT_MANY = `
  WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < ?1)
  INSERT INTO pets (id, name, category_id, status)
  SELECT n, 'pet ' || n, n, CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN 'available' WHEN 2 THEN 'pending' ELSE 'sold' END
  FROM series`;

const fillWith = (count: number) => env.PETS_DB.prepare(INSERT_MANY).bind(count).run();

async function removePets() {
  invalidatePageCache();
  await env.PETS_DB.exec("DELETE FROM pets");
  await env.PETS_DB.exec("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'pets'");
}

let client: Client;

beforeEach(async () => {
  client = await newClient();
  await removePets();
});

// After the largest id SQLite can assign no other.
afterEach(removePets);

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

const UNSAFE = 2n ** 53n;
const NEGATIVE = [INT64_MIN, INT64_MIN + 1n, -UNSAFE - 1n, -UNSAFE, -1n];
const IDS = [...NEGATIVE, 0n, 1n, UNSAFE, UNSAFE + 1n, INT64_MAX - 1n, INT64_MAX];
const PETS = IDS.map((id) => `{"id":${id},"name":"Rex","categoryId":${id},"status":"sold"}`);

it.each(["", "&status=sold"])(
  "a walk in pages of one%s returns all pets in order, and each is found by its path",
  async (filter) => {
    const insert = "INSERT INTO pets (id, name, category_id, status) VALUES (?1, 'Rex', ?1, 'sold')";
    await env.PETS_DB.batch(IDS.map((id) => env.PETS_DB.prepare(insert).bind(`${id}`)));
    // Sorted as text or as doubles, the order or the set would differ. A rounded cursor may lead back.
    expect(await walk(client, `/v1/pets?limit=1${filter}`)).toEqual(PETS.map((pet) => `[${pet}]`));
    for (const [index, id] of IDS.entries())
      expect(await (await client.get(`/v1/pets/${id}`)).text()).toBe(PETS[index]);
  },
);
