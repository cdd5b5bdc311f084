// What a key's object is paid for: how often it is called, and how many rows it writes, for a hot key, for keys at a
// steady rate, and for one whose requests come through so many isolates that none gets a lease.

import { setTimeout as wait } from "node:timers/promises";
import { load } from "../measure/load.ts";
import { progress, type Table, verdict, whole } from "../measure/report.ts";
import { startWorkers } from "../measure/workerd.ts";
import { fillD1, NO_LIMIT, newNamedKey } from "./pets.ts";

const STEADY_SECONDS = 10;

/** A whole minute: at the end of each there are no leases. */
const HOT_SECONDS = 60;

export interface ObjectsResult {
  name: string;
  requestsPerSecond: number;
  callsPerSecond: number;
  rowsPerRequest: number;
  /** None if it is what it is by design. */
  target?: string;
  met: boolean;
}

interface Counts {
  calls: number;
  rowsWritten: number;
}

/** Starts the service with objects that count, and an empty database. Whoever started it stops it. */
export async function startCountingPetstore() {
  const { workers, stop } = await startWorkers([
    {
      file: "bench/baselines/counting-petstore.ts",
      database: "DB",
      object: { binding: "RATE_LIMITER", className: "RateLimiter" },
    },
  ]);
  const [worker] = workers;
  if (worker === undefined) throw new Error("one Worker was started, and none runs");
  return { url: worker.url, database: await worker.database(), stop };
}

/** Loads one key as hard as it goes, then others at steady rates. */
export async function measureObjects(): Promise<ObjectsResult[]> {
  const { url, database, stop } = await startCountingPetstore();
  try {
    await fillD1(database, 1_000);

    const during = async (
      name: string,
      run: (key: { id: string; secret: string }) => Promise<number>,
      target?: string,
      isMet: (result: ObjectsResult) => boolean = () => true,
    ): Promise<ObjectsResult> => {
      progress(`objects: ${name}`);
      const key = await newNamedKey(database, NO_LIMIT);
      const list = { path: "/v1/pets", headers: { Authorization: `Bearer ${key.secret}` } };
      // The first request of a day also sets an alarm.
      await expectOk(url, list.path, list.headers);
      await wait(2_000);
      const before = await countsOf(url, key.id);
      const startedMs = performance.now();
      const requests = await run(key);
      const passedSeconds = (performance.now() - startedMs) / 1000;
      // What is left of leases comes back.
      await wait(2_000);
      const after = await countsOf(url, key.id);
      const result: ObjectsResult = {
        name,
        requestsPerSecond: requests / passedSeconds,
        callsPerSecond: (after.calls - before.calls) / passedSeconds,
        rowsPerRequest: (after.rowsWritten - before.rowsWritten) / requests,
        met: false,
        ...(target !== undefined && { target }),
      };
      return { ...result, met: isMet(result) };
    };

    const bearer = ({ secret }: { secret: string }) => ({ Authorization: `Bearer ${secret}` });
    const steady = (perSecond: number, path: (key: { id: string }) => string) => {
      return async (key: { id: string; secret: string }): Promise<number> => {
        const requests = perSecond * STEADY_SECONDS;
        const startMs = performance.now();
        const answers: Promise<void>[] = [];
        for (let request = 0; request < requests; request += 1) {
          await wait(Math.max(0, startMs + (request * 1000) / perSecond - performance.now()));
          answers.push(expectOk(url, path(key), bearer(key)));
        }
        await Promise.all(answers);
        await wait(Math.max(0, startMs + STEADY_SECONDS * 1000 - performance.now()));
        return requests;
      };
    };
    const hot = async (key: { id: string; secret: string }): Promise<number> => {
      const exchange = {
        path: "/v1/pets",
        headers: bearer(key),
        status: 200,
        isPlausible: () => true,
      };
      const { requestsPerSecond } = await load(url, exchange, HOT_SECONDS);
      return requestsPerSecond * HOT_SECONDS;
    };
    const list = () => "/v1/pets";
    return [
      await during("as fast as it goes", hot, "at most 5 calls/s", (each) => each.callsPerSecond <= 5),
      await during(
        "100 requests/s",
        steady(100, list),
        "at most 0.1 rows",
        (each) => each.rowsPerRequest <= 0.1,
      ),
      await during(
        "100 requests/s, through isolates without a lease",
        steady(100, ({ id }) => `/acquire?key=${id}`),
      ),
      await during("1 request/s", steady(1, list), "1 row", (each) => each.rowsPerRequest === 1),
    ];
  } finally {
    await stop();
  }
}

async function countsOf(url: URL, keyId: string): Promise<Counts> {
  return (await fetch(new URL(`/counts?key=${keyId}`, url))).json() as Promise<Counts>;
}

async function expectOk(url: URL, path: string, headers: Record<string, string>): Promise<void> {
  const response = await fetch(new URL(path, url), { headers });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${path} was answered with ${response.status}: ${text}`);
}

/** The table of this section. */
export function objectsTable(results: ObjectsResult[]): Table {
  return {
    title: "objects: calls of one key's object, and the rows that it writes",
    columns: ["one key", "requests/s", "calls/s", "rows/request"],
    rows: results.map(({ name, requestsPerSecond, callsPerSecond, rowsPerRequest, target, met }) => [
      name,
      whole(requestsPerSecond),
      callsPerSecond.toFixed(2),
      target === undefined ? rowsPerRequest.toFixed(4) : verdict(met, rowsPerRequest.toFixed(4), target),
    ]),
  };
}
