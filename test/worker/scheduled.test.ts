// The cron trigger on the rows of usage. Idempotency records: idempotency.test.ts.

import { createScheduledController } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import worker from "../../src/index.ts";
import { DAY_MS } from "../../src/keys/protocol.ts";
import { USAGE_KEPT_DAYS } from "../../src/operators/usage.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

const run = () => worker.scheduled(createScheduledController(), env);
const dayBefore = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);

async function insertRows(day: string, count: number): Promise<void> {
  await env.KEYS_DB.prepare(
    `INSERT INTO key_usage WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
     SELECT ?1, 'key ' || i, 'a', 1, 1, 0, 0, 1, 1, NULL FROM n`,
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
  expect(statements.mock.calls).toHaveLength(2);
  expect(takeLogLines()).toContainEqual({ event: "usage_rows_deleted", rows: 1_002 });
  const { results } = await env.KEYS_DB.prepare(
    "SELECT DISTINCT day FROM key_usage WHERE key_id LIKE 'key %'",
  ).all();
  expect(results).toEqual([{ day: dayBefore(USAGE_KEPT_DAYS) }]);
});

it("idempotency records are deleted also if the keys database fails", async () => {
  vi.spyOn(env.KEYS_DB, "prepare").mockImplementation(() => {
    throw new Error("D1_ERROR: no such database");
  });
  await expect(run()).rejects.toThrow();
  // Objects of earlier tests may note that they could not read their records.
  expect(takeLogLines().map(({ event }) => event)).toContain("idempotency_records_deleted");
});
