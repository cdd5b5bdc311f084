// Three isolates over sockets. They have separate memories, but share a key's limits exactly, also in bursts, with leases.

import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { addTablesAndPets } from "../../bench/cases/pets.ts";
import { startWorkers, type WorkerSource } from "../../bench/measure/workerd.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { PLAN_LIMITS } from "../../src/keys/plans.ts";
import { createKey } from "../../src/operators/admin.ts";

const ISOLATE = {
  file: "src/index.ts",
  object: { binding: "API_KEYS", className: "ApiKey", livesIn: 0 },
  sharedDatabases: { PETS_DB: "shared pets", KEYS_DB: "shared keys" },
} satisfies WorkerSource;

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

it.each([0, 60])(
  "a burst of exactly the limit through all isolates, in ten steps of %i ms, is admitted, and the next request is refused",
  async (stepMs) => {
    const pro = { name: "a test", plan: "pro", expiresAtMs: null } as const;
    const { secret } = await createKey(keys, pro, { by: "a test", nowMs: Date.now() });
    const init = { headers: { Authorization: `Bearer ${secret}` } };
    const send = (isolate: number) => fetch(new URL("/v1/nowhere", service.workers[isolate]?.url), init);
    const { minute } = PLAN_LIMITS.pro;
    const untilNextMinuteMs = 60_000 - (Date.now() % 60_000);
    // A burst must end in the minute in which it begins.
    if (untilNextMinuteMs < 10_000) await wait(untilNextMinuteMs);
    const sent = Array.from({ length: minute }, async (_, index) => {
      await wait(stepMs * Math.floor((10 * index) / minute));
      return (await send(index % 3)).status;
    });
    expect(await Promise.all(sent)).toEqual(Array(minute).fill(404));
    const { status, headers } = await send(0);
    expect([status, headers.get(HEADER.rateLimitRemaining)]).toEqual([429, "0"]);
  },
);
