// Attacks in the values of a request. docs/security.md lists the threats and the tests in other files.

import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { newSecret, withChecksum } from "../../src/keys/secret.ts";
import {
  type Client,
  countPets,
  fetchWithoutKey,
  newKey,
  newUnlimitedClient,
} from "../support/worker/client.ts";
import { watchStatements } from "../support/worker/database-stub.ts";

/** SQL that has an effect if it becomes part of a statement. */
const SQL = [
  "'; DROP TABLE pets; --",
  `"; DELETE FROM keys; --`,
  "' OR '1'='1",
  "1 OR 1=1",
  "0) UNION SELECT hash FROM keys --",
  "?1",
  "$[0]",
  "%' --",
  "\\'; DROP TABLE creations; --",
];

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

beforeAll(async () => {
  client = await newUnlimitedClient();
});

const PET = `{"name":"Rex","categoryId":1}`;

describe("the SQL of an attacker", () => {
  it.each(SQL)("is stored and returned as a name: %j", async (sql) => {
    const pet = await client.create({ name: sql });
    const read = await client.get(`/v1/pets/${pet.id}`);
    expect(await read.json()).toEqual({ id: pet.id, name: sql, categoryId: 1 });
  });

  it.each(SQL)("works as an Idempotency-Key: %j", async (sql) => {
    const key = `x${sql.replaceAll(" ", "/**/")}`;
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
    const before = await countPets();
    const answers = [await client.post(PET, headers), await client.post(PET, headers)];
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect(await answers[1]?.text()).toBe(await answers[0]?.text());
    expect(await countPets()).toBe(before + 1);
  });

  it.each(SQL)("is rejected everywhere else and changes no table: %j", async (sql) => {
    await client.get("/v1/nowhere");
    const before = await tables();
    const value = encodeURIComponent(sql);
    const responses = [
      await client.get(`/v1/pets?limit=${value}`),
      await client.get(`/v1/pets?status=${value}`),
      await client.get(`/v1/pets?cursor=${value}`),
      await client.get(`/v1/pets/${value}`),
      await client.post(JSON.stringify({ name: "Rex", categoryId: sql })),
      await client.post(JSON.stringify({ name: "Rex", categoryId: 1, status: sql })),
      await fetchWithoutKey("/v1/pets", { headers: { Authorization: `Bearer ${sql}` } }),
    ];
    expect(responses.map(({ status }) => status)).toEqual([400, 400, 400, 404, 400, 400, 401]);
    expect(await tables()).toEqual(before);
  });
});

describe.each(["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "then"])(
  "properties of every JavaScript object: %s",
  (field) => {
    it("is ignored in a body", async () => {
      const nested = `{"isAdmin":true,"id":7,"name":"Nemo","categoryId":2,"prototype":{"isAdmin":true}}`;
      const response = await client.post(`{"${field}":${nested},"name":"Rex","categoryId":1}`);
      expect(await response.json()).toEqual({ id: expect.any(Number), name: "Rex", categoryId: 1 });
      expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
      // It replaces no missing field either.
      expect((await client.post(`{"${field}":${nested}}`)).status).toBe(400);
    });

    it("is ignored in a query", async () => {
      for (const query of [`${field}=1&${field}=2`, `${field}[limit]=0`, `${field}.limit=0`]) {
        expect((await client.get(`/v1/pets?${query}&limit=1`)).status).toBe(200);
      }
      expect(({} as { limit?: unknown }).limit).toBeUndefined();
    });
  },
);

describe("a nearly correct key", () => {
  /** The statements that a request with an unknown secret costs. */
  async function statementsOf(secret: string) {
    const statements = watchStatements();
    const headers = { Authorization: `Bearer ${secret}` };
    expect((await fetchWithoutKey("/v1/pets", { headers })).status).toBe(401);
    return statements;
  }

  it("costs as many statements as any unknown key", async () => {
    const { secret } = await newKey();
    const body = secret.slice(0, -6);
    const other = body.endsWith("0") ? "1" : "0";
    const nearly = withChecksum(body.slice(0, -1) + other);
    // The lookup is by hash, and hashes of similar keys have nothing in common.
    expect(await statementsOf(newSecret())).toEqual(["primary"]);
    expect(await statementsOf(nearly)).toEqual(["primary"]);
    // A wrong checksum.
    expect(await statementsOf(body + other.repeat(6))).toEqual([]);
  });
});
