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

it.each<[string, Fields, string]>([
  ["absent fields", { name: 'a "quoted"\n\u001f\u2028🐈' }, '"name":"a \\"quoted\\"\\n\\u001f\u2028🐈"'],
  ["an empty array", { name: "a", tags: [] }, '"name":"a","tags":[]'],
  ["an array", { name: "a", tags: ["x", '"', "null"] }, '"name":"a","tags":["x","\\"","null"]'],
  [
    "integers at any depth, and null in an object",
    { name: "a", count: INT64_MIN, size: { unit: null, range: [INT64_MAX, 0n] } },
    `"name":"a","count":${INT64_MIN},"size":{"unit":null,"range":[${INT64_MAX},0]}`,
  ],
])("a row keeps %s", async (_, fields, expected) => {
  const table =
    "trials (id INTEGER PRIMARY KEY, name TEXT NOT NULL, how_many INTEGER, tags TEXT, size TEXT) STRICT";
  await env.PETS_DB.exec(`CREATE TABLE IF NOT EXISTS ${table}`);
  const { columns, placeholders, parameters } = storage;
  const insert = `INSERT INTO trials (${columns}) VALUES (${placeholders(1)}) RETURNING id, ${storage.json} AS json`;
  const row = await env.PETS_DB.prepare(insert)
    .bind(...parameters(fields))
    .first();
  expect(row?.json).toBe(`{"id":${row?.id},${expected}}`);
});

it("the hash of a request without a later field stays the same, wherever that is declared", () => {
  const { name, count, tags } = COLUMNS;
  const request = { name: "a", count: 1n, tags: ["x"] };
  expect(storage.hash(request)).toBe(storageOf<Omit<Fields, "size">>({ tags, name, count }).hash(request));
});
