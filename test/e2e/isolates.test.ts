// Three isolates over sockets. They have separate memories, but share a key's limits exactly, also in bursts, with leases.

import { setTimeout as wait } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { addTablesAndPets, newKey } from "../../bench/cases/pets.ts";
import { startWorkers, type WorkerSource } from "../../bench/measure/workerd.ts";
import { HEADER } from "../../src/http/header-names.ts";

const ISOLATE = {
  file: "src/index.ts",
  object: { binding: "API_KEYS", className: "ApiKey", livesIn: 0 },
  sharedDatabases: { PETS_DB: "shared pets", KEYS_DB: "shared keys" },
} satisfies WorkerSource;

/** Of a minute and of a day, so that a minute which begins during a burst makes no difference. */
const LIMIT = 300;

it("a burst of exactly the limit through all isolates, at once or in steps, is admitted, and the next request is refused", async () => {
  const { workers, stop } = await startWorkers([ISOLATE, ISOLATE, ISOLATE]);
  onTestFinished(stop);
  const keys = await workers[0].database("KEYS_DB");
  await addTablesAndPets({ pets: await workers[0].database("PETS_DB"), keys }, 0);
  for (const stepMs of [0, 60]) {
    const init = { headers: { Authorization: `Bearer ${await newKey(keys, LIMIT)}` } };
    const send = (isolate: number) => fetch(new URL("/v1/nowhere", workers[isolate]?.url), init);
    const sent = Array.from({ length: LIMIT }, async (_, index) => {
      await wait(stepMs * Math.floor((10 * index) / LIMIT));
      return (await send(index % 3)).status;
    });
    expect(await Promise.all(sent)).toEqual(Array(LIMIT).fill(404));
    const { status, headers } = await send(0);
    expect([status, headers.get(HEADER.rateLimitRemaining)]).toEqual([429, "0"]);
  }
});
