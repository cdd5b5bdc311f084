// Constraints and indexes of the tables.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { newKey } from "../support/worker/client.ts";

const pet = (values: string) => `INSERT INTO pets (name, category_id, status) VALUES (${values})`;
const replaced = (values: string) => `INSERT INTO replaced_secrets SELECT ${values} FROM keys`;
const key = (values: string) => `
  INSERT INTO keys (id, name, plan, per_minute, per_day, hash, last_four, created_at_ms, expires_at_ms)
  SELECT hex(randomblob(8)), ${values}`;
const creation = (values: string) => `INSERT INTO creations VALUES ('k', ${values}, 1)`;

it.each([
  ["an empty name", pet("'', 1, NULL")],
  ["a name of 256 characters", pet(`'${"x".repeat(256)}', 1, NULL`)],
  ["U+0000 in a name", pet("'a' || char(0) || 'b', 1, NULL")],
  ["a missing name", pet("NULL, 1, NULL")],
  ["a missing category", pet("'a', NULL, NULL")],
  ["a category that is not an integer", pet("'a', 1.5, NULL")],
  ["a status that does not exist", pet("'a', 1, 'gone'")],
  ["a plan that does not exist", key("'n', 'gold', NULL, NULL, randomblob(32), 'abcd', 1, NULL")],
  ["enterprise without limits", key("'n', 'enterprise', NULL, NULL, randomblob(32), 'abcd', 1, NULL")],
  ["enterprise without a limit per day", key("'n', 'enterprise', 5, NULL, randomblob(32), 'abcd', 1, NULL")],
  [
    "enterprise without a limit per minute",
    key("'n', 'enterprise', NULL, 5, randomblob(32), 'abcd', 1, NULL"),
  ],
  ["a limit per minute on another plan", key("'n', 'free', 5, NULL, randomblob(32), 'abcd', 1, NULL")],
  ["a limit per day on another plan", key("'n', 'free', NULL, 5, randomblob(32), 'abcd', 1, NULL")],
  ["a limit of 0", key("'n', 'enterprise', 0, 5, randomblob(32), 'abcd', 1, NULL")],
  ["a limit above 10^9", key("'n', 'enterprise', 5, 1000000001, randomblob(32), 'abcd', 1, NULL")],
  ["a hash of 31 bytes", key("'n', 'free', NULL, NULL, randomblob(31), 'abcd', 1, NULL")],
  ["a hash that is text", key(`'n', 'free', NULL, NULL, '${"a".repeat(32)}', 'abcd', 1, NULL`)],
  ["the hash of another key", key("'n', 'free', NULL, NULL, hash, 'abcd', 1, NULL FROM keys")],
  ["an expiry before its creation", key("'n', 'free', NULL, NULL, randomblob(32), 'abcd', 5, 5")],
  ["no name", key("'', 'free', NULL, NULL, randomblob(32), 'abcd', 1, NULL")],
  ["a revocation at 0", "UPDATE keys SET revoked_at_ms = 0"],
  ["a replaced secret of 31 bytes", replaced("randomblob(31), id, 1")],
  ["a replaced secret of an unknown key", replaced("randomblob(32), 'nobody', 1")],
  ["a grace period that ends at 0", replaced("randomblob(32), id, 0")],
  ["an empty idempotency key", creation("'', zeroblob(32), 1, '{}'")],
  ["an idempotency key of 256 characters", creation("hex(zeroblob(128)), zeroblob(32), 1, '{}'")],
  ["a request hash of 31 bytes", creation("'b', zeroblob(31), 1, '{}'")],
  ["a stored pet that is not JSON", creation("'a', zeroblob(32), 1, '{'")],
])("the schema rejects %s", async (_, sql) => {
  await newKey();
  await expect(env.DB.prepare(sql).run()).rejects.toThrow(/constraint|datatype/i);
});

it.each([
  [
    "replaced_secrets_by_key",
    "a rotation shortens grace periods",
    "DELETE FROM replaced_secrets WHERE key_id = 'x' AND good_until_ms > 1",
  ],
  [
    "creations_by_age",
    "expired idempotency records are deleted",
    "SELECT key_id FROM creations WHERE created_at_ms <= 1 ORDER BY created_at_ms LIMIT 1",
  ],
])("the index %s is used when %s", async (index, _, sql) => {
  const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${sql}`).all<{ detail: string }>();
  expect(results.map(({ detail }) => detail).join()).toContain(`INDEX ${index}`);
});
