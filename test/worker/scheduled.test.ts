// The cron trigger on the rows of usage, and on the sizes of databases. Idempotency records: idempotency.test.ts.

import { createScheduledController, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import worker from "../../src/index.ts";
import { DAY_MS } from "../../src/limits/protocol.ts";
import { changePlan } from "../../src/operators/admin.ts";
import { USAGE_KEPT_DAYS } from "../../src/operators/usage.ts";
import { limitsWith } from "../support/key-record.ts";
import { interceptStatements, objectOf } from "../support/worker/bindings.ts";
import { acquire, batch, newKey, operator } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { pass } from "../support/worker/time.ts";

const run = () => worker.scheduled(createScheduledController(), env);
const dayBefore = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);

async function insertRows(day: string, count: number): Promise<void> {
  await env.KEYS_DB.prepare(
    `INSERT INTO key_usage WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
     SELECT ?1, 'key ' || i, 'a', 1, 1, '{}', '{}', 1, NULL, 0 FROM n`,
  )
    .bind(day, count)
    .run();
}

it("rows of usage are kept for 400 days, and then deleted, in steps", async () => {
  await insertRows(dayBefore(USAGE_KEPT_DAYS), 2);
  await insertRows(dayBefore(USAGE_KEPT_DAYS + 1), 1_001);
  await insertRows(dayBefore(USAGE_KEPT_DAYS + 300), 1);
  const statements = vi.spyOn(env.KEYS_DB, "prepare");
  await run();
  expect(statements.mock.calls.filter(([sql]) => sql.includes("DELETE FROM key_usage"))).toHaveLength(2);
  expect(takeLogLines()).toContainEqual({ event: "usage_rows_deleted", rows: 1_002 });
  const { results } = await env.KEYS_DB.prepare(
    "SELECT DISTINCT day FROM key_usage WHERE key_id LIKE 'key %'",
  ).all();
  expect(results).toEqual([{ day: dayBefore(USAGE_KEPT_DAYS) }]);
});

/** The alerts of a run, and of another one right after it. */
async function alertsOf(keyId: string) {
  const logged = async () => {
    takeLogLines();
    await run();
    return takeLogLines()
      .filter((line) => line.event === "quota_alert" && line.keyId === keyId)
      .map(({ day, percent, admitted, limit }) => [day, percent, admitted, limit]);
  };
  const alerts = await logged();
  expect(await logged()).toEqual([]);
  return alerts;
}

it("a day that has used 80 and 100 % of its key's limit has an alert of each, once, also yesterday's, but none before", async () => {
  const { id } = await newKey({ plan: "enterprise", limits: { minute: 10, day: 100 } });
  const object = objectOf(id);
  const use = async (requests: number) => {
    await acquire(id, batch(requests));
    pass(600_000);
    await runDurableObjectAlarm(object);
  };
  const today = dayBefore(0);
  for (let minute = 0; minute < 7; minute += 1) await use(10);
  await use(9);
  expect(await alertsOf(id)).toEqual([]);
  await use(1);
  expect(await alertsOf(id)).toEqual([[today, 80, 80, 100]]);
  await use(10);
  expect(await alertsOf(id)).toEqual([]);
  await use(10);
  // Half an hour after the end of the day.
  vi.setSystemTime(Date.parse(today) + DAY_MS + 1_800_000);
  expect(await alertsOf(id)).toEqual([[today, 100, 100, 100]]);
  pass(1_800_000);
  // Of a lower limit, more was used on that day, which is too long ago.
  await changePlan(env.KEYS_DB, id, "enterprise", limitsWith({ minute: 10, day: 10 }), operator());
  await env.KEYS_DB.prepare("UPDATE key_usage SET alerted = 0 WHERE key_id = ?1").bind(id).run();
  expect(await alertsOf(id)).toEqual([]);
  // Other tests begin on that day again.
  await env.KEYS_DB.prepare("DELETE FROM key_usage WHERE key_id = ?1").bind(id).run();
});

it("an alert is logged again if the database fails before it knows of it", async () => {
  const { id } = await newKey({ plan: "enterprise", limits: { minute: 10, day: 10 } });
  await acquire(id, batch(10));
  pass(60_000);
  await runDurableObjectAlarm(objectOf(id));
  let statements = 0;
  interceptStatements("KEYS_DB", async (run) => {
    statements += 1;
    if (statements > 1) throw new Error("the database is away");
    return run();
  });
  takeLogLines();
  await expect(run()).rejects.toThrow();
  expect(takeLogLines().flatMap(({ percent }) => percent ?? [])).toEqual([80, 100]);
  vi.restoreAllMocks();
  expect(await alertsOf(id)).toHaveLength(2);
});

it("idempotency records are deleted also if the keys database fails", async () => {
  vi.spyOn(env.KEYS_DB, "prepare").mockImplementation(() => {
    throw new Error("D1_ERROR: no such database");
  });
  await expect(run()).rejects.toThrow();
  // Objects of earlier tests may note that they could not read their records.
  expect(takeLogLines().map(({ event }) => event)).toContain("idempotency_records_deleted");
});

const sizes = async () =>
  (
    await env.KEYS_DB.prepare("SELECT day, contents, bytes FROM database_sizes ORDER BY day, contents").all<{
      day: string;
      contents: string;
      bytes: number;
    }>()
  ).results;
const recorded = async () => (await sizes()).map(({ day, contents }) => `${day} ${contents}`);

it("the size of each database is recorded in the first run of a UTC day, and kept for 400 days", async () => {
  const old = [dayBefore(USAGE_KEPT_DAYS), dayBefore(USAGE_KEPT_DAYS + 1)];
  await env.KEYS_DB.exec("DELETE FROM database_sizes");
  for (const day of old)
    await env.KEYS_DB.prepare("INSERT INTO database_sizes VALUES (?1, 'pets', 1)").bind(day).run();
  const { meta } = await env.PETS_DB.prepare("SELECT 1").run();
  await run();
  const [kept, keys, pets] = await sizes();
  expect(kept?.day).toBe(old[0]);
  expect(keys).toEqual({ day: dayBefore(0), contents: "keys", bytes: expect.any(Number) });
  expect(pets).toEqual({ day: dayBefore(0), contents: "pets", bytes: meta.size_after });
  expect(keys?.bytes).not.toBe(pets?.bytes);
  // A larger database, but not another day.
  vi.setSystemTime(Date.parse(dayBefore(0)) + DAY_MS - 1);
  await env.PETS_DB.exec("CREATE TABLE more (id INTEGER PRIMARY KEY)");
  const statements = vi.spyOn(env.KEYS_DB, "prepare");
  await run();
  expect(statements.mock.calls.filter(([sql]) => /(INTO|FROM) database_sizes/.test(sql))).toHaveLength(1);
  expect((await sizes())[2]).toEqual(pets);
  pass(1);
  await run();
  await env.PETS_DB.exec("DROP TABLE more");
  // It was midnight. What was older than 400 days is gone.
  const [nextKeys, nextPets, ...others] = (await sizes()).slice(2);
  expect([nextKeys?.day, nextPets?.day, others]).toEqual([dayBefore(0), dayBefore(0), []]);
  expect(nextPets?.bytes).toBeGreaterThan(pets?.bytes ?? 0);
});

it("a database that fails keeps the size of no other from being recorded, and is measured by a later run", async () => {
  await env.KEYS_DB.exec("DELETE FROM database_sizes");
  const broken = vi.spyOn(env.PETS_DB, "prepare").mockImplementation(() => {
    throw new Error("D1_ERROR: no such database");
  });
  const prepare = env.KEYS_DB.prepare.bind(env.KEYS_DB);
  const usage = vi.spyOn(env.KEYS_DB, "prepare").mockImplementation((sql) => {
    if (sql.includes("key_usage")) throw new Error("D1_ERROR: no such table: key_usage");
    return prepare(sql);
  });
  await expect(run()).rejects.toThrow("key_usage");
  expect(await recorded()).toEqual([`${dayBefore(0)} keys`]);
  usage.mockRestore();
  await expect(run()).rejects.toThrow("no such database");
  broken.mockRestore();
  await run();
  expect(await recorded()).toEqual([`${dayBefore(0)} keys`, `${dayBefore(0)} pets`]);
});
