// Idempotency-Key: a retried POST creates no second pet.

import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { MESSAGES } from "../../src/http/messages.ts";
import worker from "../../src/index.ts";
import {
  deleteExpired,
  insertPetOnce,
  parseIdempotencyKey,
  ROW_RETENTION_MS,
} from "../../src/pets/idempotency.ts";
import { countPets, type ErrorBody, newClient } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

const DAY_MS = 86_400_000;

const REX = `{"name":"Rex","categoryId":9223372036854775807,"status":"sold"}`;

type Client = Awaited<ReturnType<typeof newClient>>;

function post(client: Client, idempotencyKey: string, body = REX): Promise<Response> {
  return client.post(body, { "Content-Type": "application/json", "Idempotency-Key": idempotencyKey });
}

/** The parts of a response that a retry must repeat. */
async function seen(response: Response): Promise<unknown[]> {
  return [response.status, response.headers.get("Location"), await response.text()];
}

function countCreations(): Promise<number | null> {
  return env.DB.prepare("SELECT count(*) AS creations FROM creations").first<number>("creations");
}

const runCron = () => worker.scheduled(createScheduledController(), env);

describe("a repeated POST", () => {
  it("gets the same 201, creates no second pet and consumes quota", async () => {
    const client = await newClient({ plan: "free" });
    const before = await countPets();
    const first = await seen(await post(client, "again"));
    expect(first[0]).toBe(201);
    expect(first[2]).toContain(`"categoryId":9223372036854775807`);
    const again = await post(client, "again");
    expect(again.headers.get("X-RateLimit-Remaining")).toBe("58");
    expect(await seen(again)).toEqual(first);
    expect(await countPets()).toBe(before + 1);
  });

  it("gets the same 201 and creates one pet, 10 times at once", async () => {
    const client = await newClient();
    const before = await countPets();
    const responses = await Promise.all(Array.from({ length: 10 }, () => post(client, "at-once")));
    const answers = await Promise.all(responses.map(seen));
    expect(new Set(answers.map((each) => JSON.stringify(each))).size).toBe(1);
    expect(answers[0]?.[0]).toBe(201);
    expect(await countPets()).toBe(before + 1);
  });

  it("gets the stored response even if the pet was deleted", async () => {
    const client = await newClient();
    const first = await seen(await post(client, "gone"));
    await env.DB.prepare("DELETE FROM pets WHERE id = ?1")
      .bind(JSON.parse(`${first[2]}`).id)
      .run();
    expect(await seen(await post(client, "gone"))).toEqual(first);
  });

  it.each([
    ["fields in another order", `{"status":"sold","categoryId":9223372036854775807,"name":"Rex"}`],
    ["other white space", `{ "name": "Rex",\n "categoryId": 9223372036854775807, "status": "sold" }`],
    ["another form of the number", `{"name":"Rex","categoryId":9223372036854775807.0,"status":"sold"}`],
    ["an unknown field", `{"name":"Rex","categoryId":9223372036854775807,"status":"sold","id":7}`],
    ["a quoted Idempotency-Key", REX, '"written"'],
  ])("may have %s", async (_, body, idempotencyKey = "written") => {
    const client = await newClient();
    const first = await seen(await post(client, "written"));
    expect(await seen(await post(client, idempotencyKey, body))).toEqual(first);
  });
});

describe("a different POST", () => {
  it.each([
    ["name", `{"name":"Max","categoryId":9223372036854775807,"status":"sold"}`],
    ["category", `{"name":"Rex","categoryId":9223372036854775806,"status":"sold"}`],
    ["status", `{"name":"Rex","categoryId":9223372036854775807,"status":"pending"}`],
    ["status (none)", `{"name":"Rex","categoryId":9223372036854775807}`],
  ])("gets 422 with the same key and another %s", async (_, body) => {
    const client = await newClient();
    await post(client, "other");
    const before = await countPets();
    const response = await post(client, "other", body);
    expect(response.status).toBe(422);
    expect(await response.json<ErrorBody>()).toEqual({
      code: "idempotency_key_reused",
      message: MESSAGES.idempotency_key_reused.otherPet(24),
      status: 422,
    });
    expect(await countPets()).toBe(before);
  });

  it("succeeds after a 400 with the same key", async () => {
    const client = await newClient();
    expect((await post(client, "fixed", `{"name":"Rex"}`)).status).toBe(400);
    expect((await post(client, "fixed")).status).toBe(201);
  });

  it("may have an Idempotency-Key that differs by case only, or that another API key has used", async () => {
    const [one, other] = await Promise.all([newClient(), newClient()]);
    const first = await seen(await post(one, "mine"));
    for (const second of [await post(one, "MINE"), await post(other, "mine")]) {
      const [status, location] = await seen(second);
      expect(status).toBe(201);
      expect(location).not.toBe(first[1]);
    }
    expect((await post(other, "mine", `{"name":"Max","categoryId":1}`)).status).toBe(422);
  });
});

it("a retry within 24 hours creates no second pet, with clocks that differ by 30 s", async () => {
  const skewMs = 30_000;
  // The longest time from a request's arrival to its statement.
  const waitMs = 26_000;
  const name = { keyId: "key", idempotencyKey: crypto.randomUUID() };
  const insert = (arrivalMs: number) =>
    insertPetOnce(env.DB, { name: "Rex", categoryId: 1n }, name, arrivalMs);
  const doneMs = Date.now();
  const first = await insert(doneMs - waitMs - skewMs);
  const retryMs = doneMs + DAY_MS - 1;
  await deleteExpired(env.DB, retryMs + waitMs + skewMs);
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

  it("ends in the table when the cron trigger runs, not before", async () => {
    await env.DB.exec("DELETE FROM creations");
    const client = await newClient();
    await post(client, "first");
    vi.setSystemTime(Date.now() + 1);
    await post(client, "second");
    vi.setSystemTime(Date.now() + ROW_RETENTION_MS - 1);
    await runCron();
    expect(takeLogLines().at(-1)).toEqual({ event: "idempotency_records_deleted", records: 1 });
    const left = await env.DB.prepare("SELECT idempotency_key FROM creations").all();
    expect(left.results).toEqual([{ idempotency_key: "second" }]);
  });

  it("ends for at most 40,000 records per cron run, in batches", async () => {
    await env.DB.exec("DELETE FROM creations");
    // More than one run deletes, and one that has not expired.
    await env.DB.prepare(
      `INSERT INTO creations (key_id, idempotency_key, request_hash, pet_id, pet_json, created_at_ms)
       WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 41501)
       SELECT 'key', i, zeroblob(32), i, '{}', CAST(?1 AS INTEGER) - iif(i = 41501, 0, ?2) FROM n`,
    )
      .bind(Date.now(), ROW_RETENTION_MS)
      .run();
    const statements = vi.spyOn(env.DB, "prepare");
    await runCron();
    expect(statements).toHaveBeenCalledTimes(40);
    expect(await countCreations()).toBe(1_501);
    statements.mockClear();
    await runCron();
    expect(statements).toHaveBeenCalledTimes(2);
    expect(await countCreations()).toBe(1);
    await runCron();
    expect(await countCreations()).toBe(1);
  });
});

describe("the Idempotency-Key header", () => {
  it.each([
    "",
    "x".repeat(256),
    "two words",
    "tab\tbed",
    "ünïcode",
    "one, another",
    '""',
    '"two words"',
    `"${"x".repeat(256)}"`,
    '"open',
    '"a"b"',
    '"a"; b=1',
    String.raw`"a\b"`,
    String.raw`"a\"`,
  ])("is invalid: %j", (header) => {
    expect(() => parseIdempotencyKey(header)).toThrow(MESSAGES.invalid_request.idempotencyKey);
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

  it("gets 400 and creates no pet if it is invalid, and is ignored by other operations", async () => {
    const client = await newClient();
    const before = await countPets();
    const response = await post(client, "two words");
    expect(response.status).toBe(400);
    expect((await response.json<ErrorBody>()).message).toBe(MESSAGES.invalid_request.idempotencyKey);
    expect(await countPets()).toBe(before);
    const list = await client.call("/v1/pets", { headers: { "Idempotency-Key": "two words" } });
    expect(list.status).toBe(200);
  });
});
