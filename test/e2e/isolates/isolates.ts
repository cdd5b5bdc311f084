// Runs the service in three isolates with separate memories, one database and the same Durable Objects.

import { addTablesAndPets } from "../../../bench/cases/pets.ts";
import { startWorkers } from "../../../bench/measure/workerd.ts";

/** Starts the isolates, with an empty database. Their clocks stand still. The caller must stop them. */
export async function startIsolates() {
  const object = { binding: "RATE_LIMITER", className: "RateLimiter", livesIn: 0 };
  const worker = { file: "test/e2e/isolates/worker.ts", object, sharedDatabases: { DB: "shared" } };
  const { workers, stop } = await startWorkers([worker, worker, worker]);
  const database = await workers[0].database();
  await addTablesAndPets(database, 0);
  const urls = workers.map(({ url }) => url);

  let nowMs = Date.parse("2026-11-20T12:34:20.500Z");
  const setClocks = async (search: string) => {
    for (const url of urls) await fetch(new URL(`/clock${search}`, url));
  };
  /** Stops the clocks of all isolates, advances them, and returns the new time (Unix time). */
  const advance = async (ms: number): Promise<number> => {
    nowMs += ms;
    await setClocks(`?ms=${nowMs}`);
    return nowMs;
  };
  await advance(0);
  return { url: workers[0].url, urls, database, advance, useRealClocks: () => setClocks(""), stop };
}
