// Three isolates over sockets. They have separate memories, but share a key's limits exactly, also in bursts, with leases.

import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { addTablesAndPets } from "../../bench/cases/pets.ts";
import { startWorkers, type WorkerSource } from "../../bench/measure/workerd.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { PLAN_LIMITS } from "../../src/keys/plans.ts";
import { createKey, revokeKey } from "../../src/operators/admin.ts";

const ISOLATE = {
  file: "src/index.ts",
  object: { binding: "API_KEYS", className: "ApiKey", livesIn: 0 },
  sharedDatabases: { PETS_DB: "shared pets", KEYS_DB: "shared keys" },
} satisfies WorkerSource;
const OPERATOR = { by: "a test", nowMs: Date.now() };

const start = () => startWorkers([ISOLATE, ISOLATE, ISOLATE]);

let service: Awaited<ReturnType<typeof start>>;
let keys: D1Database;

beforeAll(async () => {
  service = await start();
  const [worker] = service.workers;
  keys = await worker.database("KEYS_DB");
  await addTablesAndPets({ pets: await worker.database("PETS_DB"), keys }, 0);
});

afterAll(() => service.stop());

async function newKey() {
  const pro = { name: "a test", plan: "pro", expiresAtMs: null } as const;
  const { key, secret } = await createKey(keys, pro, OPERATOR);
  /** Sends a request through an isolate. */
  const send = async (isolate: number) => {
    const init = { headers: { Authorization: `Bearer ${secret}` } };
    const { status, headers } = await fetch(new URL("/v1/nowhere", service.workers[isolate]?.url), init);
    return { status, remaining: headers.get(HEADER.rateLimitRemaining) };
  };
  return { id: key.id, send };
}

it("an isolate that is new to a key learns from the key's object what the others know", async () => {
  const { id, send } = await newKey();
  for (const isolate of [0, 1]) expect((await send(isolate)).status).toBe(404);
  await revokeKey(keys, id, OPERATOR);
  // The object reads the record again after seconds; until then all isolates accept the key.
  const statuses = [0, 1, 2].map(async (isolate) => (await send(isolate)).status);
  expect(await Promise.all(statuses)).toEqual([404, 404, 404]);
});

it.each([
  [1, 0],
  [1, 60],
  [3, 0],
  [3, 60],
])(
  "a burst of exactly the limit through %i isolates, in ten steps of %i ms, is admitted, and the next request is refused",
  async (isolates, stepMs) => {
    const { send } = await newKey();
    const { minute } = PLAN_LIMITS.pro;
    const untilNextMinuteMs = 60_000 - (Date.now() % 60_000);
    // A burst must end in the minute in which it begins.
    if (untilNextMinuteMs < 10_000) await wait(untilNextMinuteMs);
    const sent = Array.from({ length: minute }, async (_, index) => {
      await wait(stepMs * Math.floor((10 * index) / minute));
      return (await send(index % isolates)).status;
    });
    expect(await Promise.all(sent)).toEqual(Array(minute).fill(404));
    expect(await send(0)).toEqual({ status: 429, remaining: "0" });
  },
);
