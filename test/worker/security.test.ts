// Attacks in the values of a request. docs/security.md lists the threats and the tests in other files.

import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { newSecret, withChecksum } from "../../src/keys/secret.ts";
import { type Client, fetchWithoutKey, newKey, newUnlimitedClient } from "../support/worker/client.ts";
import { watchStatements } from "../support/worker/database-stub.ts";

/** SQL that has an effect if it becomes part of a statement. */
const SQL = [`'; DROP TABLE pets; --`, `"; DELETE FROM keys; --`, "0) UNION SELECT hash FROM keys --", "?1"];

/** The tables with their row counts. */
async function tables() {
  const { results } = await env.DB.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all<{
    name: string;
  }>();
  const count = (name: string) =>
    env.DB.prepare(`SELECT count(*) AS rows FROM "${name}"`).first<number>("rows");
  return Promise.all(
    results.filter(({ name }) => !name.startsWith("_cf")).map(async ({ name }) => [name, await count(name)]),
  );
}

let client: Client;

beforeEach(async () => {
  client = await newUnlimitedClient();
});

it.each(SQL)("the SQL of an attacker is only a value, and changes no table: %j", async (sql) => {
  const { id } = await client.create({ name: sql });
  expect(await (await client.get(`/v1/pets/${id}`)).json()).toEqual({ id, name: sql, categoryId: 1 });

  const idempotencyKey = `x${sql.replaceAll(" ", "/**/")}`;
  const headers = { "Content-Type": "application/json", "Idempotency-Key": idempotencyKey };
  const post = async () => (await client.post(`{"name":"Rex","categoryId":1}`, headers)).text();
  const first = await post();
  const before = await tables();
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
  expect(await tables()).toEqual(before);
});

it.each(["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "then"])(
  "properties of every JavaScript object are ignored in bodies and queries: %s",
  async (field) => {
    const nested = `{"isAdmin":true,"id":7,"name":"Nemo","categoryId":2,"prototype":{"isAdmin":true}}`;
    const response = await client.post(`{"${field}":${nested},"name":"Rex","categoryId":1}`);
    expect(await response.json()).toEqual({ id: expect.any(Number), name: "Rex", categoryId: 1 });
    // It replaces no missing field either.
    expect((await client.post(`{"${field}":${nested}}`)).status).toBe(400);
    for (const query of [`${field}=1&${field}=2`, `${field}[limit]=0`, `${field}.limit=0`]) {
      expect((await client.get(`/v1/pets?${query}&limit=1`)).status).toBe(200);
    }
    const { isAdmin, limit } = {} as Record<string, unknown>;
    expect([isAdmin, limit]).toEqual([undefined, undefined]);
  },
);

it("a nearly correct key costs as many statements as any unknown key, and none with a wrong checksum", async () => {
  const { secret } = await newKey();
  const body = secret.slice(0, -6);
  const other = body.endsWith("0") ? "1" : "0";
  // The lookup is by hash, and hashes of similar keys have nothing in common.
  const nearly = withChecksum(body.slice(0, -1) + other);
  const statementsOf = async (unknown: string) => {
    const statements = watchStatements();
    const headers = { Authorization: `Bearer ${unknown}` };
    expect((await fetchWithoutKey("/v1/pets", { headers })).status).toBe(401);
    return statements;
  };
  expect(await statementsOf(newSecret())).toEqual(["primary"]);
  expect(await statementsOf(nearly)).toEqual(["primary"]);
  expect(await statementsOf(body + other.repeat(6))).toEqual([]);
});
