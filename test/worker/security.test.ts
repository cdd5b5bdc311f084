// Attacks in the values of a request, and by guesses at somebody's secret. docs/security.md lists the threats and the tests in other files.

import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { newKeyId, newSecret, withChecksum } from "../../src/keys/secret.ts";
import { watchObjects, watchReads } from "../support/worker/bindings.ts";
import { type Client, countPets, fetchWithoutKey, newClient } from "../support/worker/client.ts";

let client: Client;

beforeEach(async () => {
  client = await newClient();
});

/** The number of rows in the tables that the SQL of an attacker would change. */
const countRows = async () => [
  await countPets(),
  await env.PETS_DB.prepare("SELECT count(*) AS rows FROM creations").first("rows"),
  await env.KEYS_DB.prepare("SELECT count(*) AS rows FROM keys").first("rows"),
];

// SQL that has an effect if it becomes part of a statement.
const SQL = [`'; DROP TABLE pets; --`, `"; DELETE FROM keys; --`, "0) UNION SELECT hash FROM keys --", "?1"];
it.each(SQL)("the SQL of an attacker is only a value, and changes no table: %j", async (sql) => {
  const { id } = await client.create({ name: sql });
  expect(await (await client.get(`/v1/pets/${id}`)).json()).toEqual({ id, name: sql, categoryId: 1 });

  const idempotencyKey = `x${sql.replaceAll(" ", "/**/")}`;
  const post = async () => (await client.postOnce(`{"name":"Rex","categoryId":1}`, idempotencyKey)).text();
  const first = await post();
  const before = await countRows();
  expect(await post()).toBe(first);
  const value = encodeURIComponent(sql);
  const refused = [
    await client.get(`/v1/pets?limit=${value}`),
    await client.get(`/v1/pets?status=${value}`),
    await client.get(`/v1/pets?cursor=${value}`),
    await client.get(`/v1/pets/${value}`),
    await client.post(JSON.stringify({ name: "Rex", categoryId: sql })),
    await client.post(JSON.stringify({ name: "Rex", categoryId: 1, status: sql })),
    await fetchWithoutKey("/v1/pets", { headers: { Authorization: `Bearer ${sql}` } }),
  ];
  expect(refused.map(({ status }) => status)).toEqual([400, 400, 400, 404, 400, 400, 401]);
  expect(await countRows()).toEqual(before);
});

const PROPERTIES = ["__proto__", "constructor", "toString", "then"];
it.each(PROPERTIES)(
  "properties of every JavaScript object are ignored in bodies and queries: %s",
  async (field) => {
    const nested = `{"isAdmin":true,"id":7,"name":"Nemo","categoryId":2,"prototype":{"isAdmin":true}}`;
    const response = await client.post(`{"${field}":${nested},"name":"Rex","categoryId":1}`);
    expect(await response.json()).toEqual({ id: expect.any(Number), name: "Rex", categoryId: 1 });
    // It replaces no missing field either.
    expect((await client.post(`{"${field}":${nested}}`)).status).toBe(400);
    for (const query of [`${field}=1&${field}=2`, `${field}[limit]=0`, `${field}.limit=0`])
      expect((await client.get(`/v1/pets?${query}&limit=1`)).status).toBe(200);
    const { isAdmin, limit } = {} as Record<string, unknown>;
    expect([isAdmin, limit]).toEqual([undefined, undefined]);
  },
);

it("a nearly correct key costs as much as any unknown key, and nothing with a wrong checksum", async () => {
  const body = client.secret.slice(0, -6);
  const other = body.endsWith("0") ? "1" : "0";
  // The object compares hashes, and those of similar keys have nothing in common.
  const nearly = withChecksum(body.slice(0, -1) + other);
  const costOf = async (unknown: string, keyId: string) => {
    const [statements, calls] = [watchReads(keyId), watchObjects(keyId)];
    const headers = { Authorization: `Bearer ${unknown}` };
    expect((await fetchWithoutKey("/v1/nowhere", { headers })).status).toBe(401);
    return [statements.length, calls.length];
  };
  const nobody = newKeyId();
  expect(await costOf(body + other.repeat(6), client.id)).toEqual([0, 0]);
  expect(await costOf(newSecret(nobody), nobody)).toEqual([1, 1]);
  expect(await costOf(nearly, client.id)).toEqual([1, 1]);
});
