// What the tables of keys and creations make impossible, for whoever writes past the service, and that they are read by
// their indexes. Those of pets and of new keys are in the tests of bad input and of keys.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { newKey } from "../support/worker/client.ts";

it.each([
  ["a revocation at no time", "UPDATE keys SET revoked_at_ms = 0"],
  ["a replaced secret of 31 bytes", "INSERT INTO replaced_secrets SELECT randomblob(31), id, 1 FROM keys"],
  ["a replaced secret of no key", "INSERT INTO replaced_secrets VALUES (randomblob(32), 'nobody', 1)"],
  ["a grace that ends at no time", "INSERT INTO replaced_secrets SELECT randomblob(32), id, 0 FROM keys"],
  ["a creation without a name", "INSERT INTO creations VALUES ('k', '', zeroblob(32), 1, '{}', 1)"],
  [
    "a creation with a name of 256 characters",
    "INSERT INTO creations VALUES ('k', hex(zeroblob(128)), zeroblob(32), 1, '{}', 1)",
  ],
  ["a creation with a hash of 31 bytes", "INSERT INTO creations VALUES ('k', 'b', zeroblob(31), 1, '{}', 1)"],
  [
    "a creation that was answered with no JSON",
    "INSERT INTO creations VALUES ('k', 'a', zeroblob(32), 1, '{', 1)",
  ],
])("there can't be %s", async (_, sql) => {
  await newKey();
  await expect(env.DB.prepare(sql).run()).rejects.toThrow(/constraint/i);
});

it.each([
  [
    "replaced_secrets_by_key",
    "graces are shortened",
    "DELETE FROM replaced_secrets WHERE key_id = 'x' AND good_until_ms > 1",
  ],
  [
    "creations_by_age",
    "creations are forgotten",
    "SELECT key_id FROM creations WHERE created_at_ms <= 1 ORDER BY created_at_ms LIMIT 1",
  ],
])("%s is there for when %s", async (index, _, sql) => {
  const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${sql}`).all<{ detail: string }>();
  expect(results.map(({ detail }) => detail).join()).toContain(`INDEX ${index}`);
});
