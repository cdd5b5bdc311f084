// 64-bit integers are exact in bodies, paths, cursors and storage.

import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../src/lib/int64.ts";
import { invalidatePageCache, linkTo, newClient } from "../support/worker/client.ts";

const SAFE_MAX = 2n ** 53n - 1n;
const NEGATIVE = [INT64_MIN, INT64_MIN + 1n, -SAFE_MAX - 2n, -SAFE_MAX, -1n];
const IDS = [...NEGATIVE, 0n, 1n, SAFE_MAX, SAFE_MAX + 1n, SAFE_MAX + 2n, INT64_MAX - 1n, INT64_MAX];

it("the service stores and returns every categoryId", async () => {
  const client = await newClient();
  for (const categoryId of IDS) {
    const created = await client.post(`{"name":"Rex","categoryId":${categoryId}}`);
    const text = await created.text();
    expect(text).toContain(`"categoryId":${categoryId}}`);
    expect(await (await client.get(created.headers.get("Location") ?? "")).text()).toBe(text);
  }
});

describe("with ids at the edges of int64", () => {
  /** Removes all pets, so that the next one gets this id. */
  async function removePets(nextId: string) {
    invalidatePageCache();
    await env.DB.exec("DELETE FROM pets");
    await env.DB.exec(`UPDATE sqlite_sequence SET seq = ${nextId} - 1 WHERE name = 'pets'`);
  }

  beforeEach(async () => {
    await removePets("1");
    const insert = "INSERT INTO pets (id, name, category_id, status) VALUES (?1, 'Rex', ?1, 'sold')";
    await env.DB.batch(IDS.map((id) => env.DB.prepare(insert).bind(`${id}`)));
  });

  // After the largest id SQLite can assign no other.
  afterEach(() => removePets("1"));

  it("each pet is found by its path", async () => {
    const client = await newClient();
    for (const id of IDS) {
      const response = await client.get(`/v1/pets/${id}`);
      expect(await response.text()).toBe(`{"id":${id},"name":"Rex","categoryId":${id},"status":"sold"}`);
    }
  });

  it("a POST returns the exact id of a pet above 2^53", async () => {
    await removePets("9007199254740993");
    const client = await newClient();
    const response = await client.post(`{"name":"Rex","categoryId":1}`);
    expect(response.headers.get("Location")).toBe("/v1/pets/9007199254740993");
    expect(await response.text()).toBe(`{"id":9007199254740993,"name":"Rex","categoryId":1}`);
  });

  it.each(["", "&status=sold"])("a walk in pages of one%s returns all ids in order", async (filter) => {
    const client = await newClient();
    const met: string[] = [];
    for (let path: string | undefined = `/v1/pets?limit=1${filter}`; path !== undefined; ) {
      const response: Response = await client.get(path);
      met.push((await response.text()).match(/^\[\{"id":(-?\d+),/)?.[1] ?? "");
      path = linkTo("next", response);
    }
    // Sorted as text or as doubles, the order or the set would differ.
    expect(met).toEqual(IDS.map(String));
  });
});
