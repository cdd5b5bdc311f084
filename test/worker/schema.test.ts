// Constraints and indexes of the tables of keys and idempotency records. text.test.ts has the constraints of pets, keys.test.ts
// those of new keys.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { newKey } from "../support/worker/client.ts";

it.each([
  ["a revocation at 0", "UPDATE keys SET revoked_at_ms = 0"],
  ["a replaced secret of 31 bytes", "INSERT INTO replaced_secrets SELECT randomblob(31), id, 1 FROM keys"],
  [
    "a replaced secret of an unknown key",
    "INSERT INTO replaced_secrets VALUES (randomblob(32), 'nobody', 1)",
  ],
  ["a grace period that ends at 0", "INSERT INTO replaced_secrets SELECT randomblob(32), id, 0 FROM keys"],
  ["an empty idempotency key", "INSERT INTO creations VALUES ('k', '', zeroblob(32), 1, '{}', 1)"],
  [
    "an idempotency key of 256 characters",
    "INSERT INTO creations VALUES ('k', hex(zeroblob(128)), zeroblob(32), 1, '{}', 1)",
  ],
  ["a request hash of 31 bytes", "INSERT INTO creations VALUES ('k', 'b', zeroblob(31), 1, '{}', 1)"],
  ["a stored pet that is not JSON", "INSERT INTO creations VALUES ('k', 'a', zeroblob(32), 1, '{', 1)"],
])("the schema rejects %s", async (_, sql) => {
  await newKey();
  await expect(env.DB.prepare(sql).run()).rejects.toThrow(/constraint/i);
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
