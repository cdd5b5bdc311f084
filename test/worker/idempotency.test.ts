// Idempotency-Key: a retried POST creates no second pet.

import { createExecutionContext, createScheduledController, waitOnExecutionContext } from "cloudflare:test";
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

async function countCreations(): Promise<number> {
  return (
    (await env.DB.prepare("SELECT count(*) AS creations FROM creations").first<number>("creations")) ?? 0
  );
}

async function runCron(): Promise<void> {
  const ctx = createExecutionContext();
  await worker.scheduled(createScheduledController(), env);
  await waitOnExecutionContext(ctx);
}

describe("a repeated POST", () => {
  it("gets the same 201 and creates no second pet", async () => {
    const client = await newClient();
    const before = await countPets();
    const first = await seen(await post(client, "again"));
    expect(first[0]).toBe(201);
    expect(first[2]).toContain(`"categoryId":9223372036854775807`);
    expect(await seen(await post(client, "again"))).toEqual(first);
    expect(await countPets()).toBe(before + 1);
  });

  it("gets the same 201 and creates one pet, 50 times at once", async () => {
    const client = await newClient();
    const before = await countPets();
    const responses = await Promise.all(Array.from({ length: 50 }, () => post(client, "at-once")));
    const answers = await Promise.all(responses.map(seen));
    expect(new Set(answers.map((each) => JSON.stringify(each))).size).toBe(1);
    expect(answers[0]?.[0]).toBe(201);
    expect(await countPets()).toBe(before + 1);
  });

  it("consumes quota", async () => {
    const client = await newClient({ plan: "free" });
    await post(client, "counted");
    expect((await post(client, "counted")).headers.get("X-RateLimit-Remaining")).toBe("58");
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
  ])("may have %s", async (_, body) => {
    const client = await newClient();
    const first = await seen(await post(client, "written"));
    expect(await seen(await post(client, "written", body))).toEqual(first);
  });

  it("may quote the Idempotency-Key", async () => {
    const client = await newClient();
    const first = await seen(await post(client, "quoted"));
    expect(await seen(await post(client, '"quoted"'))).toEqual(first);
  });
});

it("the service retries a write whose result was lost, and creates one pet", async () => {
  const client = await newClient();
  const before = await countPets();
  const batch = env.DB.batch.bind(env.DB);
  const calls = vi.spyOn(env.DB, "batch").mockImplementationOnce(async (statements) => {
    await batch(statements);
    throw new Error("D1_ERROR: Network connection lost.");
  });
  expect((await post(client, "lost")).status).toBe(201);
  expect([calls.mock.calls.length, await countPets()]).toEqual([2, before + 1]);
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

  it("may have an Idempotency-Key that another API key has used", async () => {
    const [one, other] = await Promise.all([newClient(), newClient()]);
    const [first, second] = [await seen(await post(one, "mine")), await seen(await post(other, "mine"))];
    expect([first[0], second[0]]).toEqual([201, 201]);
    expect(second[1]).not.toBe(first[1]);
    expect((await post(other, "mine", `{"name":"Max","categoryId":1}`)).status).toBe(422);
  });

  it("may have an Idempotency-Key that differs by case only", async () => {
    const client = await newClient();
    const [first, second] = [await seen(await post(client, "a")), await seen(await post(client, "A"))];
    expect(second[1]).not.toBe(first[1]);
  });
});

describe("a retry within 24 hours", () => {
  const SKEWS_MS = [-30_000, 30_000];
  const orders = SKEWS_MS.flatMap((creationMs) =>
    SKEWS_MS.flatMap((retryMs) => SKEWS_MS.map((cleanupMs) => [creationMs, retryMs, cleanupMs] as const)),
  );

  it.each(orders)(
    "creates no second pet with clock skews of %i ms first, %i ms at the retry, %i ms at the cron trigger",
    async (creationMs, retryMs, cleanupMs) => {
      const name = { keyId: "key", idempotencyKey: crypto.randomUUID() };
      // The longest time from a request's arrival to its statement.
      const waitMs = 26_000;
      const doneMs = Date.now();
      const insert = (arrivalMs: number) =>
        insertPetOnce(env.DB, { name: "Rex", categoryId: 1n }, name, arrivalMs);
      const first = await insert(doneMs - waitMs + creationMs);
      const arrivalMs = doneMs + DAY_MS - 1;
      await deleteExpired(env.DB, arrivalMs + waitMs + cleanupMs);
      expect(await insert(arrivalMs + retryMs)).toEqual(first);
    },
  );
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
    ["", undefined],
    ["a", "a"],
    ["!~", "!~"],
    ["x".repeat(255), "x".repeat(255)],
    ["x".repeat(256), undefined],
    ["two words", undefined],
    ["tab\tbed", undefined],
    ["ünïcode", undefined],
    ['"quoted"', "quoted"],
    ['""', undefined],
    ['"two words"', undefined],
    [`"${"x".repeat(255)}"`, "x".repeat(255)],
    [`"${"x".repeat(256)}"`, undefined],
    ['"open', undefined],
    ['"', undefined],
    ['"a"b"', undefined],
    ['"a"; b=1', undefined],
    [String.raw`"a\"b"`, 'a"b'],
    [String.raw`"a\\b"`, String.raw`a\b`],
    [String.raw`"a\b"`, undefined],
    [String.raw`"a\"`, undefined],
    ['a"b', 'a"b'],
    ["one, another", undefined],
  ])("%j is parsed as %j", (header, key) => {
    if (key === undefined) {
      expect(() => parseIdempotencyKey(header)).toThrow(MESSAGES.invalid_request.idempotencyKey);
    } else {
      expect(parseIdempotencyKey(header)).toBe(key);
    }
  });

  it("means the same key with and without quotes", () => {
    const visible = fc.string({
      unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
      minLength: 1,
      maxLength: 255,
    });
    fc.assert(
      fc.property(visible, (key) => {
        const quoted = `"${key.replace(/["\\]/g, "\\$&")}"`;
        expect(parseIdempotencyKey(quoted)).toBe(key);
        // A leading quote always starts the quoted form.
        if (!key.startsWith('"')) expect(parseIdempotencyKey(key)).toBe(key);
      }),
    );
  });

  it("gets 400 and creates no pet if it is invalid", async () => {
    const client = await newClient();
    const before = await countPets();
    const response = await post(client, "two words");
    expect(response.status).toBe(400);
    expect((await response.json<ErrorBody>()).message).toBe(MESSAGES.invalid_request.idempotencyKey);
    expect(await countPets()).toBe(before);
  });

  it("is ignored by other operations", async () => {
    const client = await newClient();
    const response = await client.call("/v1/pets", { headers: { "Idempotency-Key": "two words" } });
    expect(response.status).toBe(200);
  });
});
