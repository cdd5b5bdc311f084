// Idempotency-Key: a retried POST creates no second pet.

import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import worker from "../../src/index.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import { deleteExpired, parseIdempotencyKey, ROW_RETENTION_MS } from "../../src/pets/idempotency.ts";
import { type Client, countPets, newClient } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { pass } from "../support/worker/time.ts";

const DAY_MS = 86_400_000;

const REX = `{"name":"Rex","categoryId":9223372036854775807,"status":"sold"}`;
const MAX = `{"name":"Max","categoryId":1}`;

let client: Client;

beforeEach(async () => {
  client = await newClient({ plan: "free" });
});

const post = (idempotencyKey: string, body = REX, by = client) => by.postOnce(body, idempotencyKey);

/** The parts of a response that a retry must repeat. */
async function seen(response: Response): Promise<unknown[]> {
  return [response.status, response.headers.get("Location"), await response.text()];
}

const isReplayed = ({ headers }: Response) => headers.get(HEADER.idempotentReplayed) === "true";

it("a repeated POST gets the same 201 and creates one pet, also ten times at once, and consumes quota; its SQL is only a value", async () => {
  const [key, body] = ["';DROP/**/TABLE/**/creations;--", REX.replace("Rex", "'; DROP TABLE pets; --")];
  const before = await countPets();
  const responses = await Promise.all(Array.from({ length: 10 }, () => post(key, body)));
  expect(responses.map(isReplayed).sort()).toEqual([false, ...Array(9).fill(true)]);
  const [first = [], ...others] = await Promise.all(responses.map(seen));
  expect(first[0]).toBe(201);
  expect(first[2]).toContain(`"categoryId":9223372036854775807`);
  expect(others).toEqual(Array(9).fill(first));
  const again = await post(key, body);
  expect(again.headers.get(HEADER.rateLimitRemaining)).toBe("49");
  expect(isReplayed(again)).toBe(true);
  expect(await seen(again)).toEqual(first);
  expect(await countPets()).toBe(before + 1);
});

it("the table has only the SHA-256 of an Idempotency-Key, because it may be a secret", async () => {
  await env.PETS_DB.exec("DELETE FROM creations");
  await post(client.secret);
  const rows = await env.PETS_DB.prepare(
    "SELECT *, lower(hex(idempotency_hash)) AS hash FROM creations",
  ).all();
  expect(rows.results).toMatchObject([{ hash: sha256(client.secret) }]);
  expect(JSON.stringify(rows.results)).not.toContain(client.secret);
});

it("a repeated POST gets the stored response even if the pet was deleted, and may write its values otherwise", async () => {
  const first = await seen(await post("gone"));
  await env.PETS_DB.prepare("DELETE FROM pets WHERE id = ?1")
    .bind(JSON.parse(`${first[2]}`).id)
    .run();
  const sameValues = `{ "status": "sold", "id": 7, "categoryId": 9223372036854775807.0, "name": "\\u0052ex" }`;
  expect(await seen(await post('"gone"', sameValues))).toEqual(first);
});

it("a different POST gets 422 with the same key and another name, category or status", async () => {
  expect((await post("other")).status).toBe(201);
  const before = await countPets();
  const message = MESSAGES.idempotency_key_reused.otherPet(24);
  for (const body of [REX.replace("Rex", "Max"), REX.replace("807", "806"), REX.replace("sold", "pending")]) {
    const refused = await post("other", body);
    expect(isReplayed(refused)).toBe(false);
    expect(await refused.json()).toEqual({ code: "idempotency_key_reused", message, status: 422 });
  }
  expect(await countPets()).toBe(before);
});

it("a different POST succeeds after a 400, with another case of the key, and with the key of another API key", async () => {
  expect((await post("mine", `{"name":"Rex"}`)).status).toBe(400);
  const created = [await post("mine"), await post("MINE"), await post("mine", REX, await newClient())];
  expect(created.map(({ status }) => status)).toEqual([201, 201, 201]);
  expect(new Set(created.map(({ headers }) => headers.get("Location"))).size).toBe(3);
});

it("an idempotency record lasts for more than 24 hours, even if the cron trigger never ran", async () => {
  const first = await seen(await post("day"));
  // Clocks differ by 30 s, and a statement runs up to 26 s after its request has arrived.
  pass(DAY_MS + 60_000);
  await deleteExpired(env.PETS_DB, Date.now());
  expect(await seen(await post("day"))).toEqual(first);
  pass(ROW_RETENTION_MS - DAY_MS - 60_000);
  const renewed = await post("day", MAX);
  expect(isReplayed(renewed)).toBe(false);
  const later = await seen(renewed);
  expect([later[0], later[1] === first[1]]).toEqual([201, false]);
  // The new POST has a record again.
  expect(await seen(await post("day", MAX))).toEqual(later);
});

it("an idempotency record ends in the table when the cron trigger runs, in batches, for at most 40,000 records per run", async () => {
  await env.PETS_DB.exec("DELETE FROM creations");
  // More than one run deletes, and one that ends a millisecond later.
  await env.PETS_DB.prepare(
    `INSERT INTO creations (key_id, idempotency_hash, request_hash, pet_id, pet_json, created_at_ms)
     WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 41501)
     SELECT 'key', unhex(printf('%064x', i)), zeroblob(32), i, '{}', CAST(?1 AS INTEGER) + (i = 41501) FROM n`,
  )
    .bind(Date.now() - ROW_RETENTION_MS)
    .run();
  const statements = vi.spyOn(env.PETS_DB, "prepare");
  const event = "idempotency_records_deleted";
  for (const [count, records] of [
    [40, 40_000],
    [2, 1_500],
  ] as const) {
    statements.mockClear();
    await worker.scheduled(createScheduledController(), env);
    // The first run of a day also measures the database.
    const deletions = statements.mock.calls.filter(([sql]) => sql.includes("creations"));
    expect(deletions).toHaveLength(count);
    expect(takeLogLines()).toContainEqual({ event, records });
  }
  const { results } = await env.PETS_DB.prepare("SELECT pet_id AS pet FROM creations").all();
  expect(results).toEqual([{ pet: 41_501 }]);
});

const LONGEST = "~".repeat(255);
const INVALID = ["", `${LONGEST}~`, "two words", "ünïcode", "one, another"];
const INVALID_QUOTED = ['""', `"${LONGEST}~"`, '"a"b"', '"a"; b=1', String.raw`"a\b"`, String.raw`"a\"`];

it.each([...INVALID, ...INVALID_QUOTED])("the Idempotency-Key header is invalid: %j", (header) => {
  expect(() => parseIdempotencyKey(header)).toThrow(MESSAGES.invalid_request.idempotencyKey(255));
});

it.each([
  ["!", "!"],
  [LONGEST, LONGEST],
  [`"${LONGEST}"`, LONGEST],
  // Only a leading quote starts the quoted form.
  ['a"b', 'a"b'],
  [String.raw`"\"a\\b"`, String.raw`"a\b`],
])("the Idempotency-Key header means the same key with and without quotes: %s", (header, key) => {
  expect(parseIdempotencyKey(header)).toBe(key);
});
