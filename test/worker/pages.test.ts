// Pagination: rows read, order, next links and cursors.

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { PageCache } from "../../src/pets/page-cache.ts";
import { selectPage } from "../../src/pets/store.ts";
import {
  type Client,
  invalidatePageCache,
  linkTo,
  newUnlimitedClient,
  ORIGIN,
  walk,
} from "../support/worker/client.ts";
import { watchStatements } from "../support/worker/database-stub.ts";

const INSERT_MANY = `
  WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < ?1)
  INSERT INTO pets (id, name, category_id, status)
  SELECT n, 'pet ' || n, n, CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN 'available' WHEN 2 THEN 'pending' ELSE 'sold' END
  FROM series`;

async function fillWith(count: number) {
  invalidatePageCache();
  await env.PETS_DB.exec("DELETE FROM pets");
  if (count > 0) await env.PETS_DB.prepare(INSERT_MANY).bind(count).run();
}

interface Pet {
  id: number;
}

let client: Client;

beforeEach(async () => {
  client = await newUnlimitedClient();
});

const idsOf = async (response: Response) => (await response.json<Pet[]>()).map(({ id }) => id);

it("a page of a large table holds the pets after its cursor, and reads at most limit + 1 rows", async () => {
  await fillWith(10_000);
  for (const status of [undefined, "available", "pending", "sold"] as const) {
    for (const limit of [1, 20, 100]) {
      for (const cursor of [undefined, 5_000n, 9_999n, 20_000n]) {
        const { meta } = await selectPage(env.PETS_DB, { limit, status, cursor }).all();
        // Not 0 either: that would mean that the figure is not measured.
        expect(meta.rows_read).toBeLessThanOrEqual(limit + 1);
        if (cursor === undefined || cursor < 9_000n) expect(meta.rows_read).toBe(limit + 1);
      }
    }
  }
  const path = `/v1/pets?limit=100&cursor=${encodeCursor(7_001n)}`;
  expect(await idsOf(await client.get(path))).toEqual(
    Array.from({ length: 100 }, (_, index) => 7_001 + index),
  );
  expect(await idsOf(await client.get(path.replace("100", "2")))).toEqual([7_001, 7_002]);
  const response = await client.get(`${path}&status=sold`);
  expect(await idsOf(response)).toEqual(Array.from({ length: 100 }, (_, index) => 7_003 + 4 * index));
  const [first] = await idsOf(await client.get(linkTo("next", response) ?? ""));
  expect(first).toBe(7_403);
});

describe("the next link", () => {
  it.each([
    [0, "", [[]]],
    [1, "", [[1]]],
    [3, "", [[1, 2, 3]]],
    [4, "", [[1, 2, 3], [4]]],
    [7, "", [[1, 2, 3], [4, 5, 6], [7]]],
    [27, "&status=sold", [[3, 7, 11], [15, 19, 23], [27]]],
  ])("is on every page but the last: %i pets in pages of three%s", async (count, filter, pages) => {
    await fillWith(count);
    const walked = await walk<Pet>(client.get, `/v1/pets?limit=3${filter}`);
    expect(walked.map((page) => page.map(({ id }) => id))).toEqual(pages);
  });

  it("is absolute and carries limit and status only", async () => {
    await fillWith(50);
    const target = async (path: string) => {
      const [, url = ""] = (await client.get(path)).headers.get("Link")?.match(/^<(.+)>; rel="next"$/) ?? [];
      return new URL(url);
    };
    const filtered = await target("/v1/pets?utm=1&limit=2&status=sold&limitless=5");
    expect(filtered.origin + filtered.pathname).toBe(`${ORIGIN}/v1/pets`);
    expect([...filtered.searchParams.keys()]).toEqual(["limit", "status", "cursor"]);
    expect([filtered.searchParams.get("limit"), filtered.searchParams.get("status")]).toEqual(["2", "sold"]);

    expect(await idsOf(await client.get("/v1/pets"))).toHaveLength(20);
    const plain = await target("/v1/pets");
    expect([...plain.searchParams.keys()]).toEqual(["limit", "cursor"]);
    expect(plain.searchParams.get("limit")).toBe("20");
  });
});

it("the page cache evicts the oldest pages by their bytes", async () => {
  await fillWith(5);
  // A page takes 500 bytes, and some 140 for its one pet: two fit.
  const cache = new PageCache(1_400);
  const statements = watchStatements("PETS_DB");
  for (const cursor of [1n, 2n, 1n, 2n, 3n, 2n, 3n, 1n]) await cache.get(env.PETS_DB, { limit: 1, cursor });
  expect(statements).toHaveLength(4);
});
