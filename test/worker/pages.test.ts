// Pages: order, the page cache, and ids at the edges of int64, which are exact in paths, bodies, cursors and storage.
// list-parameters.test.ts has each parameter, test/e2e/fuzz.test.ts categories at the edges.

import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../src/lib/int64.ts";
import { PageCache } from "../../src/pets/page-cache.ts";
import { watchStatements } from "../support/worker/bindings.ts";
import { type Client, invalidatePageCache, newClient, walk } from "../support/worker/client.ts";

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

it("the page cache evicts the oldest pages by their bytes", async () => {
  for (let pet = 0; pet < 5; pet += 1) await client.create();
  // A page takes 500 bytes, and some 80 for its one pet: two fit.
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
