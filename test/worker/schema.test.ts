// Constraints and indexes of the tables, in both databases. The schema has no list that the code has: plans, statuses, kinds of changes.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { BANNED } from "../../src/keys/object/ban-record.ts";
import { newKey } from "../support/worker/client.ts";

const pet = (values: string) => `INSERT INTO pets (name, category_id, status) VALUES (${values})`;
const creation = (values: string) => `INSERT INTO creations VALUES ('k', ${values}, 1)`;
const replaced = (values: string) =>
  `INSERT INTO replaced_secrets (key_id, hash, good_until_ms) SELECT ${values} FROM keys`;
const key = (values: string) => `
  INSERT INTO keys (id, name, plan, per_minute, per_day, hash, last_four, created_at_ms, expires_at_ms)
  SELECT hex(randomblob(8)), ${values}`;
const change = (values: string) => `
  INSERT INTO key_changes (key_id, at_ms, change, changed_by) VALUES (${values})`;

it.each([
  ["an empty name", pet("'', 1, NULL")],
  ["a name of 256 characters", pet(`'${"x".repeat(256)}', 1, NULL`)],
  ["U+0000 in a name", pet("'a' || char(0) || 'b', 1, NULL")],
  ["a missing name", pet("NULL, 1, NULL")],
  ["a missing category", pet("'a', NULL, NULL")],
  ["a category that is not an integer", pet("'a', 1.5, NULL")],
  ["an empty idempotency key", creation("'', zeroblob(32), 1, '{}'")],
  ["an idempotency key of 256 characters", creation("hex(zeroblob(128)), zeroblob(32), 1, '{}'")],
  ["a request hash of 31 bytes", creation("'b', zeroblob(31), 1, '{}'")],
  ["a stored pet that is not JSON", creation("'a', zeroblob(32), 1, '{'")],
])("the schema of pets rejects %s", async (_, sql) => {
  await expect(env.PETS_DB.prepare(sql).run()).rejects.toThrow(/constraint|datatype/i);
});

it.each([
  ["a missing plan", key("'n', NULL, NULL, NULL, randomblob(32), 'abcd', 1, NULL")],
  ["a limit per minute without one per day", key("'n', 'free', 5, NULL, randomblob(32), 'abcd', 1, NULL")],
  ["a limit per day without one per minute", key("'n', 'free', NULL, 5, randomblob(32), 'abcd', 1, NULL")],
  ["a limit of 0", key("'n', 'enterprise', 0, 5, randomblob(32), 'abcd', 1, NULL")],
  ["a limit that is not an integer", key("'n', 'enterprise', 5, 5.5, randomblob(32), 'abcd', 1, NULL")],
  ["a hash of 31 bytes", key("'n', 'free', NULL, NULL, randomblob(31), 'abcd', 1, NULL")],
  ["a hash that is text", key(`'n', 'free', NULL, NULL, '${"a".repeat(32)}', 'abcd', 1, NULL`)],
  ["an expiry before its creation", key("'n', 'free', NULL, NULL, randomblob(32), 'abcd', 5, 5")],
  ["no name", key("'', 'free', NULL, NULL, randomblob(32), 'abcd', 1, NULL")],
  ["the last five characters of a secret", key("'n', 'free', NULL, NULL, randomblob(32), 'abcde', 1, NULL")],
  ["a revocation at 0", "UPDATE keys SET revoked_at_ms = 0"],
  ["the id of another key", "UPDATE keys SET id = 'same'"],
  ["a replaced secret of 31 bytes", replaced("id, randomblob(31), 1")],
  ["a replaced secret of an unknown key", replaced("'nobody', randomblob(32), 1")],
  ["a grace period that ends at 0", replaced("id, randomblob(32), 0")],
  [
    "a second grace period of a secret",
    `${replaced("id, zeroblob(32), 1")} UNION ALL SELECT id, zeroblob(32), 2 FROM keys`,
  ],
  ["a change that nobody made", change("'k', 1, 'renamed', NULL")],
  ["a change at 0", change("'k', 0, 'renamed', 'a test'")],
])("the schema of keys rejects %s", async (_, sql) => {
  await newKey();
  await newKey();
  await expect(env.KEYS_DB.prepare(sql).run()).rejects.toThrow(/constraint|datatype/i);
});

it("the schema has no name of a plan or of a status, and only the name of bans, which their index needs", async () => {
  const schema = "SELECT group_concat(sql) AS sql FROM sqlite_schema";
  const read = (database: D1Database) => database.prepare(schema).first<string>("sql");
  const texts = [await read(env.KEYS_DB), await read(env.PETS_DB)].map((sql) => sql?.match(/'\w+'/g) ?? []);
  expect(texts).toEqual([[`'${BANNED}'`], []]);
});

it("each text column has a limited length, unless the service itself writes its texts", async () => {
  const sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%STRICT%'";
  const read = async (database: D1Database) => {
    const { results } = await database.prepare(sql).all<{ name: string; sql: string }>();
    return results.flatMap(({ name, sql }) =>
      [...sql.matchAll(/(?:^|,) *(\w+) TEXT\b(?!.*CHECK \(length\(\1\))/gm)].map(
        ([, column]) => `${name}.${column}`,
      ),
    );
  };
  const unlimited = [...(await read(env.KEYS_DB)), ...(await read(env.PETS_DB))];
  expect(unlimited.sort()).toEqual(WRITTEN_BY_SERVICE);
});

/** Ids, bookmarks, names in the code or of system users, and texts that follow from limited ones. */
const WRITTEN_BY_SERVICE = [
  "creations.key_id",
  "creations.pet_json",
  "key_changes.change",
  "key_changes.changed_by",
  "key_changes.from_value",
  "key_changes.key_id",
  "key_changes.to_value",
  "keys.id",
  "keys.plan",
  "pet_restores.begun_by",
  "pet_restores.bookmark",
  "pet_restores.undo_bookmark",
  "pets.status",
  "replaced_secrets.key_id",
];

it.each([
  [
    "PETS_DB",
    "creations_by_age",
    "expired idempotency records are deleted",
    "SELECT key_id FROM creations WHERE created_at_ms <= 1 ORDER BY created_at_ms LIMIT 1",
  ],
  [
    "PETS_DB",
    "pets_by_status",
    "pets of a status are listed",
    "SELECT id FROM pets WHERE status = 'sold' AND id >= 5",
  ],
  [
    "KEYS_DB",
    "key_changes_by_key",
    "the changes of a key are listed",
    "SELECT change FROM key_changes WHERE key_id = 'x' ORDER BY at_ms DESC",
  ],
  [
    "KEYS_DB",
    "key_changes_by_time",
    "all changes are listed",
    "SELECT change FROM key_changes ORDER BY at_ms DESC",
  ],
] as const)("%s: the index %s is used when %s", async (database, index, _, sql) => {
  expect(await planOf(env[database], sql)).toContain(`INDEX ${index}`);
});

it.each([
  ["the object reads the replaced secrets of a key", "SELECT hash FROM replaced_secrets WHERE key_id = 'x'"],
  [
    "a rotation shortens grace periods",
    "DELETE FROM replaced_secrets WHERE key_id = 'x' AND good_until_ms > 1",
  ],
])("only rows of the key are read when %s", async (_, sql) => {
  expect(await planOf(env.KEYS_DB, sql)).toContain("SEARCH replaced_secrets USING PRIMARY KEY (key_id=?)");
});

/** The plan of a query, as SQLite explains it. */
async function planOf(database: D1Database, sql: string): Promise<string> {
  const { results } = await database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all<{ detail: string }>();
  return results.map(({ detail }) => detail).join();
}
