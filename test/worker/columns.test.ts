// The storage of fields of every kind, in D1: a pet has no arrays and objects yet.

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
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

async function store(fields: Fields): Promise<string> {
  const { columns, placeholders, parameters } = storage;
  await env.PETS_DB.exec(
    "CREATE TABLE IF NOT EXISTS trials (id INTEGER PRIMARY KEY, name TEXT NOT NULL, how_many INTEGER, tags TEXT CHECK (json_valid(tags)), size TEXT CHECK (json_valid(size))) STRICT",
  );
  const row = await env.PETS_DB.prepare(
    `INSERT INTO trials (${columns}) VALUES (${placeholders(1)}) RETURNING ${storage.json} AS json`,
  )
    .bind(...parameters(fields))
    .first<{ json: string }>();
  return (row?.json ?? "").replace(/"id":\d+/, `"id":0`);
}

describe("a row", () => {
  it.each<[string, Fields, string]>([
    [
      "absent fields",
      { name: 'a "quoted"\n\u001f\u2028🐈' },
      '{"id":0,"name":"a \\"quoted\\"\\n\\u001f\u2028🐈"}',
    ],
    ["an empty array", { name: "a", tags: [] }, '{"id":0,"name":"a","tags":[]}'],
    ["an array", { name: "a", tags: ["x", '"', "null"] }, '{"id":0,"name":"a","tags":["x","\\"","null"]}'],
    [
      "integers at any depth, and null in an object",
      { name: "a", count: INT64_MIN, size: { unit: null, range: [INT64_MAX, 0n] } },
      `{"id":0,"name":"a","count":${INT64_MIN},"size":{"unit":null,"range":[${INT64_MAX},0]}}`,
    ],
  ])("keeps %s", async (_, fields, expected) => {
    expect(await store(fields)).toBe(expected);
  });
});

describe("the hash of a request", () => {
  const { hash } = storage;
  const all: Fields = { name: "a", count: 1n, tags: ["x"], size: { unit: "m", range: [1n] } };

  it("depends on each field", () => {
    const others: Partial<Fields>[] = [
      { name: "b" },
      { count: 2n },
      { tags: [] },
      { size: { unit: "m", range: [] } },
    ];
    const { name, count } = all;
    const fewer: Fields[] = [{ name }, { name, count: count ?? 0n }];
    const hashes = [all, ...others.map((each) => ({ ...all, ...each })), ...fewer].map(hash);
    expect(new Set(hashes).size).toBe(hashes.length);
  });

  it("tells a value from the same value of another field, and a text from what it looks like", () => {
    const texts = storageOf<{ a?: string; b?: string }>({ a: text("a"), b: text("b") });
    const hashes = [{ a: "x" }, { b: "x" }, { a: "x", b: "" }, { a: 'x"],["b","' }].map(texts.hash);
    expect(new Set(hashes).size).toBe(hashes.length);
  });

  it("of a request without a later field stays the same, wherever that is declared", () => {
    const { size, ...before } = all;
    const { name, count, tags } = COLUMNS;
    const earlier = storageOf<Omit<Fields, "size">>({ tags, name, count });
    expect(hash(before)).toBe(earlier.hash(before));
    expect(hash({ ...before, ...(size && { size }) })).not.toBe(earlier.hash(before));
  });
});
