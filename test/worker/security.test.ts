// Attacks in the values of a request. docs/security.md lists the threats and the tests in other files.

import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { newSecret, withChecksum } from "../../src/keys/secret.ts";
import { countPets, fetchWithoutKey, newClient, newKey } from "../support/worker/client.ts";
import { interceptStatements } from "../support/worker/database-stub.ts";

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

describe.each(SQL)("the SQL %j", (sql) => {
  it("is stored and returned as a name", async () => {
    const client = await newClient();
    const pet = await client.create({ name: sql });
    expect(await (await client.get(`/v1/pets/${pet.id}`)).json()).toEqual({
      id: pet.id,
      name: sql,
      categoryId: 1,
    });
  });

  it("works as an Idempotency-Key", async () => {
    const client = await newClient();
    const headers = {
      "Content-Type": "application/json",
      "Idempotency-Key": `x${sql.replaceAll(" ", "/**/")}`,
    };
    const body = `{"name":"Rex","categoryId":1}`;
    const before = await countPets();
    const answers = [await client.post(body, headers), await client.post(body, headers)];
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect(await answers[1]?.text()).toBe(await answers[0]?.text());
    expect(await countPets()).toBe(before + 1);
  });

  it("is rejected everywhere else and changes no table", async () => {
    const client = await newClient();
    await client.get("/v1/nowhere");
    const before = await tables();
    const value = encodeURIComponent(sql);
    const headers = { "Content-Type": "application/json" };
    const pet = (fields: object) => JSON.stringify({ name: "Rex", categoryId: 1, ...fields });
    const responses = [
      await client.get(`/v1/pets?limit=${value}`),
      await client.get(`/v1/pets?status=${value}`),
      await client.get(`/v1/pets?cursor=${value}`),
      await client.get(`/v1/pets/${value}`),
      await client.post(pet({ categoryId: sql }), headers),
      await client.post(pet({ status: sql }), headers),
      await fetchWithoutKey("/v1/pets", { headers: { Authorization: `Bearer ${sql}` } }),
    ];
    expect(responses.map(({ status }) => status)).toEqual([400, 400, 400, 404, 400, 400, 401]);
    expect(await tables()).toEqual(before);
  });
});

describe("properties of every JavaScript object", () => {
  const FIELDS = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "then"];

  it.each(FIELDS)("%s is ignored in a body", async (field) => {
    const client = await newClient();
    const polluted = `{"isAdmin":true,"id":7,"name":"Nemo","categoryId":2,"status":"sold","prototype":{"isAdmin":true}}`;
    const response = await client.post(`{"${field}":${polluted},"name":"Rex","categoryId":1}`);
    expect(response.status).toBe(201);
    expect(await response.json()).toEqual({ id: expect.any(Number), name: "Rex", categoryId: 1 });
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
  });

  it.each(FIELDS)("%s does not replace a missing field", async (field) => {
    const client = await newClient();
    const response = await client.post(`{"${field}":{"name":"Nemo","categoryId":2}}`);
    expect(response.status).toBe(400);
  });

  it.each(FIELDS)("%s is ignored in a query", async (field) => {
    const client = await newClient();
    for (const query of [`${field}=1`, `${field}=1&${field}=2`, `${field}[limit]=0`, `${field}.limit=0`]) {
      expect((await client.get(`/v1/pets?${query}&limit=1`)).status).toBe(200);
    }
    expect(({} as { limit?: unknown }).limit).toBeUndefined();
  });
});

describe("a nearly correct key", () => {
  /** The number of statements that a request with an unknown secret costs. */
  async function statementsOf(secret: string): Promise<number> {
    let statements = 0;
    interceptStatements((run) => {
      statements += 1;
      return run();
    });
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
    const statements = await statementsOf(newSecret());
    expect(statements).toBeGreaterThan(0);
    expect(await statementsOf(nearly)).toBe(statements);
    expect(await statementsOf(body + other.repeat(6))).toBe(0);
  });
});
