// IDs at the edges of int64 are exact in paths, bodies, cursors and storage. test/e2e/fuzz.test.ts has categories there.

import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../src/lib/int64.ts";
import { type Client, invalidatePageCache, newClient, walk } from "../support/worker/client.ts";

const UNSAFE = 2n ** 53n;
const NEGATIVE = [INT64_MIN, INT64_MIN + 1n, -UNSAFE - 1n, -UNSAFE, -1n];
const IDS = [...NEGATIVE, 0n, 1n, UNSAFE, UNSAFE + 1n, INT64_MAX - 1n, INT64_MAX];
const PETS = IDS.map((id) => `{"id":${id},"name":"Rex","categoryId":${id},"status":"sold"}`);

let client: Client;

/** Removes all pets, so that the next one gets this id. */
async function removePets(nextId = 1n) {
  invalidatePageCache();
  await env.PETS_DB.exec("DELETE FROM pets");
  await env.PETS_DB.exec(`UPDATE sqlite_sequence SET seq = ${nextId} - 1 WHERE name = 'pets'`);
}

beforeEach(async () => {
  client = await newClient();
  await removePets();
  const insert = "INSERT INTO pets (id, name, category_id, status) VALUES (?1, 'Rex', ?1, 'sold')";
  await env.PETS_DB.batch(IDS.map((id) => env.PETS_DB.prepare(insert).bind(`${id}`)));
});

// After the largest id SQLite can assign no other.
afterEach(() => removePets());

it("each pet is found by its path", async () => {
  for (const [index, id] of IDS.entries())
    expect(await (await client.get(`/v1/pets/${id}`)).text()).toBe(PETS[index]);
});

it("a POST returns the exact id of a pet above 2^53", async () => {
  await removePets(UNSAFE + 1n);
  const response = await client.post(`{"name":"Rex","categoryId":1}`);
  expect(response.headers.get("Location")).toBe("/v1/pets/9007199254740993");
  expect(await response.text()).toBe(`{"id":9007199254740993,"name":"Rex","categoryId":1}`);
});

it.each(["", "&status=sold"])("a walk in pages of one%s returns all pets in order", async (filter) => {
  // Sorted as text or as doubles, the order or the set would differ. A rounded cursor may lead back.
  expect(await walk(client, `/v1/pets?limit=1${filter}`)).toEqual(PETS.map((pet) => `[${pet}]`));
});
