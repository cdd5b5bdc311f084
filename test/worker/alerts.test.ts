// The queries of docs/alerts.md, over lines that the service has written. In Cloudflare's SQL, attributes['name'] is a field of a line; in
// D1 it is one of a JSON text.

import { createScheduledController, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, expect, it } from "vitest";
import ALERTS from "../../docs/alerts.md?raw";
import type { Failure } from "../../src/http/request-context.ts";
import worker from "../../src/index.ts";
import { interceptCalls, interceptStatements, objectOf, REAL } from "../support/worker/bindings.ts";
import { acquire, batch, fetchWithoutKey, newClient } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { pass } from "../support/worker/time.ts";

/** The query of each section that has one. */
const QUERIES = Object.fromEntries(
  [...ALERTS.matchAll(/^## (\w+)\n(?:(?!^## ).)*?```sql\n(.*?)\n```/gms)].map(([, name, sql]) => [name, sql]),
);

beforeAll(async () => {
  await REAL.PETS_DB.batch([
    REAL.PETS_DB.prepare(`CREATE TABLE "logs.workersLogs" (accountTag, scriptName, attributes)`),
    REAL.PETS_DB.prepare(`CREATE TABLE "states.d1Storage" (accountTag, databaseSize)`),
  ]);
});

afterAll(async () => {
  await env.PETS_DB.exec(`DROP TABLE "logs.workersLogs"; DROP TABLE "states.d1Storage"`);
});

/** The value of an alert if the log of the Worker has these lines, and another Worker the same. */
async function alertValue(name: string, lines: object[]): Promise<number | null> {
  const insertion = `INSERT INTO "logs.workersLogs" VALUES ('<ACCOUNT_TAG>', 'petstore', ?1), ('<ACCOUNT_TAG>', 'other', ?1)`;
  const sql = `${QUERIES[name]}`
    .replace(/attributes\[('\w+')\]/g, "attributes ->> $1")
    .replace(/\w+\.\w+/, '"$&"');
  await REAL.PETS_DB.batch([
    REAL.PETS_DB.prepare(`DELETE FROM "logs.workersLogs"`),
    ...lines.map((line) => REAL.PETS_DB.prepare(insertion).bind(JSON.stringify(line))),
  ]);
  return REAL.PETS_DB.prepare(sql).first<number>("value");
}

it("failures and errors are counted as the log has them", async () => {
  const { id, get } = await newClient();
  await get("/v1/pets");
  await fetchWithoutKey("/v1/pets");
  // Clients do not notice the first.
  interceptCalls(id, () => Promise.reject(new Error("away")));
  pass(60_000);
  expect((await get("/v1/pets")).status).toBe(200);
  interceptStatements("PETS_DB", () => Promise.reject(new Error("away")));
  expect((await get("/v1/pets/1")).status).toBe(503);
  const lines = takeLogLines();
  expect(await alertValue("Failures", lines)).toBe(2);
  expect(await alertValue("Errors", lines)).toBe(1);
});

/** Complete, because the compiler knows all. */
const FAILURES = {
  internal_error: 1,
  limiter_unavailable: 1,
  database_unavailable: 1,
  database_full: 1,
  lookups_busy: 1,
} satisfies Record<Failure["event"], 1>;

it("every kind of failure is counted", async () => {
  const kinds = Object.keys(FAILURES);
  expect(
    await alertValue(
      "Failures",
      kinds.map((failure) => ({ event: "request", failure })),
    ),
  ).toBe(kinds.length);
});

it("a key that has used up its day is counted, and the largest database counts", async () => {
  const { id, get } = await newClient({ plan: "enterprise", limits: { minute: 100, day: 100 } });
  await get("/v1/pets");
  await acquire(id, batch(99));
  // As long as the object waits before it writes its totals.
  pass(60_000);
  await runDurableObjectAlarm(objectOf(id));
  takeLogLines();
  await worker.scheduled(createScheduledController(), env);
  const lines = takeLogLines();
  expect(lines.map(({ percent }) => percent).filter(Boolean)).toEqual([80, 100]);
  expect(await alertValue("Quotas", lines)).toBe(1);
  await env.PETS_DB.exec(
    `INSERT INTO "states.d1Storage" VALUES ('<ACCOUNT_TAG>', 5), ('<ACCOUNT_TAG>', 7), ('other', 9)`,
  );
  expect(await alertValue("Database", [])).toBe(7);
});
