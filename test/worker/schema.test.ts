// Constraints and indexes of the tables, in both databases, and fields in columns (src/pets/columns.ts), of which ours has no arrays and objects
// yet. The schema has no list that the code has: plans, statuses, kinds of changes.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { BANNED } from "../../src/keys/reports.ts";
import { INT64_MAX, INT64_MIN } from "../../src/lib/int64.ts";
import { int64, json, storageOf, text } from "../../src/pets/columns.ts";
import { newKey } from "../support/worker/client.ts";

const pet = (values: string) => `INSERT INTO pets (name, category_id, status) VALUES (${values})`;
const creation = (values: string) => `INSERT INTO creations VALUES (${values}, 1)`;
/** A valid key but for these values. */
const key = (values: Record<string, string>) => {
  const secret = { hash: "randomblob(32)", last_four: "'abcd'" };
  const valid = { id: "hex(randomblob(8))", name: "'n'", plan: "'free'", created_at_ms: "1", ...secret };
  const row = { ...valid, ...values };
  return `INSERT INTO keys (${Object.keys(row)}) SELECT ${Object.values(row)}`;
};
const replaced = (values: string) =>
  `INSERT INTO replaced_secrets (key_id, hash, good_until_ms) SELECT ${values} FROM keys`;
const change = (values: string) =>
  `INSERT INTO key_changes (key_id, at_ms, change, changed_by) VALUES (${values})`;

it.each([
  ["an empty name", pet("'', 1, NULL")],
  ["a name of 256 characters", pet(`'${"x".repeat(256)}', 1, NULL`)],
  ["U+0000 in a name", pet("'a' || char(0) || 'b', 1, NULL")],
  ["a missing name", pet("NULL, 1, NULL")],
  ["a missing category", pet("'a', NULL, NULL")],
  ["a category that is not an integer", pet("'a', 1.5, NULL")],
  ["an idempotency key as text", creation("'k', hex(zeroblob(16)), zeroblob(32), 1, '{}'")],
  ["an idempotency hash of 31 bytes", creation("'k', zeroblob(31), zeroblob(32), 1, '{}'")],
  ["a request hash of 31 bytes", creation("'k', zeroblob(32), zeroblob(31), 1, '{}'")],
  ["a stored pet that is not JSON", creation("'k', zeroblob(32), zeroblob(32), 1, '{'")],
  ["a missing plan", key({ plan: "NULL" })],
  ["limits that are not JSON", key({ limits: "'{'" })],
  ["a hash of 31 bytes", key({ hash: "randomblob(31)" })],
  ["a hash that is text", key({ hash: `'${"a".repeat(32)}'` })],
  ["an expiry before its creation", key({ created_at_ms: "5", expires_at_ms: "5" })],
  ["a key without a name", key({ name: "''" })],
  ["a name of a key of 256 characters", key({ name: "hex(zeroblob(128))" })],
  ["the last five characters of a secret", key({ last_four: "'abcde'" })],
  ["an empty ref", key({ ref: "''" })],
  ["a ref of 65 characters", key({ ref: `'${"x".repeat(65)}'` })],
  ["an empty note", key({ note: "''" })],
  ["a note of 201 characters", key({ note: `'${"x".repeat(201)}'` })],
  ["a revocation at 0", "UPDATE keys SET revoked_at_ms = 0"],
  ["a suspension at 0", "UPDATE keys SET suspended_at_ms = 0"],
  ["an access that is not 1", "UPDATE keys SET read_only = 0"],
  ["the id of another key", "UPDATE keys SET id = 'same'"],
  ["a replaced secret of 31 bytes", replaced("id, randomblob(31), 1")],
  ["a replaced secret of an unknown key", replaced("'nobody', randomblob(32), 1")],
  ["a grace period that ends at 0", replaced("id, randomblob(32), 0")],
  [
    "the last five characters of a replaced secret",
    "INSERT INTO replaced_secrets SELECT id, randomblob(32), 1, 'abcde' FROM keys",
  ],
  ["a second grace", replaced("id, zeroblob(32), 1 FROM keys UNION ALL SELECT id, zeroblob(32), 2")],
  ["a change that nobody made", change("'k', 1, 'renamed', NULL")],
  ["a change at 0", change("'k', 0, 'renamed', 'a test'")],
  ["a second latest backup", "INSERT INTO backups VALUES (2, 1, 'a test')"],
  ["a size on no day", "INSERT INTO database_sizes VALUES ('today', 'keys', 1)"],
])("the schema rejects %s", async (_, sql) => {
  // Two keys.
  for (let count = 0; count < 2; count += 1) await newKey();
  const database = / (pets|creations) /.test(sql) ? env.PETS_DB : env.KEYS_DB;
  await expect(database.prepare(sql).run()).rejects.toThrow(/constraint|datatype/i);
});

it("the schema has no name of a plan or of a status, and only the name of bans, which their index needs", async () => {
  const schema = "SELECT group_concat(sql) AS sql FROM sqlite_schema";
  const read = (database: D1Database) => database.prepare(schema).first<string>("sql");
  const texts = [await read(env.KEYS_DB), await read(env.PETS_DB)].map((sql) => sql?.match(/'\w+'/g) ?? []);
  expect(texts).toEqual([[`'${BANNED}'`], []]);
});

it.each([
  ["PETS_DB", "SELECT 1 FROM creations WHERE created_at_ms <= 1 ORDER BY created_at_ms", "creations_by_age"],
  ["KEYS_DB", "SELECT change FROM key_changes WHERE key_id = 'x' ORDER BY id DESC", "key_changes_by_key"],
  ["KEYS_DB", "SELECT id FROM keys WHERE folded_name IN ('x', 'y')", "keys_by_folded_name"],
  ["KEYS_DB", "SELECT id FROM keys WHERE folded_name IS NULL", "keys_by_folded_name"],
  ["KEYS_DB", "DELETE FROM replaced_secrets WHERE key_id = 'x'", "PRIMARY KEY (key_id=?)"],
] as const)("%s: an index serves %s", async (name, sql, index) => {
  const { results } = await env[name].prepare(`EXPLAIN QUERY PLAN ${sql}`).all<{ detail: string }>();
  expect(results.map(({ detail }) => detail).join()).toContain(index);
});

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
