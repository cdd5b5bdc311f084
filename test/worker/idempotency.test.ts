// Idempotency-Key: a retried POST creates no second pet.

import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import worker from "../../src/index.ts";
import {
  deleteExpired,
  insertPetOnce,
  parseIdempotencyKey,
  ROW_RETENTION_MS,
} from "../../src/pets/idempotency.ts";
import { type Client, countPets, type ErrorBody, newClient } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

const DAY_MS = 86_400_000;

const REX = `{"name":"Rex","categoryId":9223372036854775807,"status":"sold"}`;

function post(client: Client, idempotencyKey: string, body = REX): Promise<Response> {
  return client.post(body, { "Content-Type": "application/json", [HEADER.idempotencyKey]: idempotencyKey });
}

/** The parts of a response that a retry must repeat. */
async function seen(response: Response): Promise<unknown[]> {
  return [response.status, response.headers.get("Location"), await response.text()];
}

describe("a repeated POST", () => {
  it("gets the same 201, creates no second pet and consumes quota", async () => {
    const client = await newClient({ plan: "free" });
    const before = await countPets();
    const first = await seen(await post(client, "again"));
    expect(first[0]).toBe(201);
    expect(first[2]).toContain(`"categoryId":9223372036854775807`);
    const again = await post(client, "again");
    expect(again.headers.get(HEADER.rateLimitRemaining)).toBe("58");
    expect(await seen(again)).toEqual(first);
    expect(await countPets()).toBe(before + 1);
  });

  it("gets the same 201 and creates one pet, 10 times at once", async () => {
    const client = await newClient();
    const before = await countPets();
    const responses = await Promise.all(Array.from({ length: 10 }, () => post(client, "at-once")));
    const [first = [], ...others] = await Promise.all(responses.map(seen));
    expect(first[0]).toBe(201);
    expect(others).toEqual(Array(9).fill(first));
    expect(await countPets()).toBe(before + 1);
  });

  it("gets the stored response even if the pet was deleted, and may write its values otherwise", async () => {
    const client = await newClient();
    const first = await seen(await post(client, "gone"));
    await env.PETS_DB.prepare("DELETE FROM pets WHERE id = ?1")
      .bind(JSON.parse(`${first[2]}`).id)
      .run();
    const sameValues = `{ "status": "sold", "id": 7, "categoryId": 9223372036854775807.0, "name": "\\u0052ex" }`;
    expect(await seen(await post(client, '"gone"', sameValues))).toEqual(first);
  });
});

describe("a different POST", () => {
  it("gets 422 with the same key and another name, category or status", async () => {
    const client = await newClient();
    expect((await post(client, "other")).status).toBe(201);
    const before = await countPets();
    for (const body of [
      `{"name":"Max","categoryId":9223372036854775807,"status":"sold"}`,
      `{"name":"Rex","categoryId":9223372036854775806,"status":"sold"}`,
      `{"name":"Rex","categoryId":9223372036854775807,"status":"pending"}`,
      `{"name":"Rex","categoryId":9223372036854775807}`,
    ]) {
      const error = { code: "idempotency_key_reused", message: MESSAGES.idempotency_key_reused.otherPet(24) };
      expect(await (await post(client, "other", body)).json<ErrorBody>()).toEqual({ ...error, status: 422 });
    }
    expect(await countPets()).toBe(before);
  });

  it("succeeds after a 400, with another case of the key, and with the key of another API key", async () => {
    const [one, other] = await Promise.all([newClient(), newClient()]);
    expect((await post(one, "mine", `{"name":"Rex"}`)).status).toBe(400);
    const created = [await post(one, "mine"), await post(one, "MINE"), await post(other, "mine")];
    expect(created.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(new Set(created.map(({ headers }) => headers.get("Location"))).size).toBe(3);
    expect((await post(other, "mine", `{"name":"Max","categoryId":1}`)).status).toBe(422);
  });
});

it("a retry within 24 hours creates no second pet, with clocks that differ by 30 s", async () => {
  const skewMs = 30_000;
  // The longest time from a request's arrival to its statement.
  const waitMs = 26_000;
  const name = { keyId: "key", idempotencyKey: crypto.randomUUID() };
  const insert = (arrivalMs: number) =>
    insertPetOnce(env.PETS_DB, { name: "Rex", categoryId: 1n }, name, arrivalMs);
  const doneMs = Date.now();
  const first = await insert(doneMs - waitMs - skewMs);
  const retryMs = doneMs + DAY_MS - 1;
  await deleteExpired(env.PETS_DB, retryMs + waitMs + skewMs);
  expect(await insert(retryMs + skewMs)).toEqual(first);
});

describe("the retention of an idempotency record", () => {
  it("ends after 24 hours and five minutes, even if the cron trigger never ran", async () => {
    const client = await newClient();
    const first = await seen(await post(client, "day"));
    vi.setSystemTime(Date.now() + ROW_RETENTION_MS - 1);
    expect(await seen(await post(client, "day"))).toEqual(first);
    vi.setSystemTime(Date.now() + 1);
    const later = await seen(await post(client, "day", `{"name":"Max","categoryId":1}`));
    expect(later[0]).toBe(201);
    expect(later[1]).not.toBe(first[1]);
    // The new POST has a record again.
    expect(await seen(await post(client, "day", `{"name":"Max","categoryId":1}`))).toEqual(later);
  });

  it("ends in the table when the cron trigger runs, in batches, for at most 40,000 records per run", async () => {
    await env.PETS_DB.exec("DELETE FROM creations");
    // More than one run deletes, and one that expires a millisecond later.
    await env.PETS_DB.prepare(
      `INSERT INTO creations (key_id, idempotency_key, request_hash, pet_id, pet_json, created_at_ms)
       WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 41501)
       SELECT 'key', i, zeroblob(32), i, '{}', CAST(?1 AS INTEGER) + (i = 41501) FROM n`,
    )
      .bind(Date.now() - ROW_RETENTION_MS)
      .run();
    const statements = vi.spyOn(env.PETS_DB, "prepare");
    const runs: unknown[] = [];
    for (let run = 0; run < 3; run += 1) {
      statements.mockClear();
      await worker.scheduled(createScheduledController(), env);
      runs.push([statements.mock.calls.length, takeLogLines().at(-1)]);
    }
    const event = "idempotency_records_deleted";
    expect(runs).toEqual([
      [40, { event, records: 40_000 }],
      [2, { event, records: 1_500 }],
      [1, { event, records: 0 }],
    ]);
    const { results } = await env.PETS_DB.prepare("SELECT idempotency_key AS key FROM creations").all();
    expect(results).toEqual([{ key: "41501" }]);
  });
});

describe("the Idempotency-Key header", () => {
  it.each([
    "",
    "x".repeat(256),
    "two words",
    "ünïcode",
    "one, another",
    '""',
    `"${"x".repeat(256)}"`,
    '"a"b"',
    '"a"; b=1',
    String.raw`"a\b"`,
    String.raw`"a\"`,
  ])("is invalid: %j", (header) => {
    expect(() => parseIdempotencyKey(header)).toThrow(MESSAGES.invalid_request.idempotencyKey(255));
  });

  it("means the same key with and without quotes, of 1 to 255 visible characters", () => {
    const visible = fc.string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 255,
    });
    const expectParsed = (key: string) => {
      const quoted = `"${key.replace(/["\\]/g, "\\$&")}"`;
      expect(parseIdempotencyKey(quoted)).toBe(key);
      // A leading quote always starts the quoted form.
      if (!key.startsWith('"')) expect(parseIdempotencyKey(key)).toBe(key);
    };
    fc.assert(fc.property(visible, expectParsed));
    for (const key of ["!", "~", "x".repeat(255)]) expectParsed(key);
  });
});
