// The storage of fields of every kind, in D1: a pet has no arrays and objects yet.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { INT64_MAX, INT64_MIN } from "../../src/lib/int64.ts";
import { int64, json, storageOf, text } from "../../src/pets/columns.ts";

interface Fields {
  name: string;
  count?: bigint;
  tags?: string[];
  size?: { unit: string | null; range: bigint[] };
}

const COLUMNS = { name: text("name"), count: int64("how_many"), tags: json("tags"), size: json("size") };
const storage = storageOf<Fields>(COLUMNS);

it.each<[Fields, string]>([
  [{ name: 'a "quoted"\n\u001f\u2028🐈', tags: [] }, '"name":"a \\"quoted\\"\\n\\u001f\u2028🐈","tags":[]'],
  [
    { name: "a", count: INT64_MIN, tags: ['"', "null"], size: { unit: null, range: [INT64_MAX, 0n] } },
    `"name":"a","count":${INT64_MIN},"tags":["\\"","null"],"size":{"unit":null,"range":[${INT64_MAX},0]}`,
  ],
])("a row keeps its fields, and lacks those that are absent: $0.name", async (fields, expected) => {
  const columns = "id INTEGER PRIMARY KEY, name TEXT NOT NULL, how_many INTEGER, tags TEXT, size TEXT";
  await env.PETS_DB.exec(`CREATE TABLE IF NOT EXISTS trials (${columns}) STRICT`);
  const insert = `INSERT INTO trials (${storage.columns}) VALUES (${storage.placeholders(1)})`;
  const statement = env.PETS_DB.prepare(`${insert} RETURNING id, ${storage.json} AS json`);
  const row = await statement.bind(...storage.parameters(fields)).first();
  expect(row?.json).toBe(`{"id":${row?.id},${expected}}`);
});

it("the hash of a request without a later field stays the same, wherever that is declared", () => {
  const { name, count, tags } = COLUMNS;
  const request = { name: "a", count: 1n, tags: ["x"] };
  expect(storage.hash(request)).toBe(storageOf<Omit<Fields, "size">>({ tags, name, count }).hash(request));
});
