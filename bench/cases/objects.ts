// What Cloudflare charges for a key's object: its calls and the rows that it writes. Measured for a hot key, for keys at a
// steady rate, and for a key without leases, as when its requests are spread over many isolates.

import { setTimeout as wait } from "node:timers/promises";
import { load, verify } from "../measure/load.ts";
import { progress, type Table, verdict, whole } from "../measure/report.ts";
import { startWorkers } from "../measure/workerd.ts";
import { addTablesAndPets, NO_LIMIT, newKeyWithId } from "./pets.ts";

const STEADY_SECONDS = 10;

/** A whole minute, because no lease outlasts its minute. */
const HOT_SECONDS = 60;

/** The longest that a lease takes to come back after its last request, with a reserve. */
const SETTLE_MS = 2_000;

export interface ObjectsResult {
  name: string;
  requestsPerSecond: number;
  callsPerSecond: number;
  rowsPerRequest: number;
  target?: string;
  met: boolean;
}

/** What counting-petstore.ts tells of an object. */
interface Counts {
  calls: number;
  rowsWritten: number;
  bytes: number;
}

interface Key {
  id: string;
  secret: string;
}

/** Starts the service with objects that count, and an empty database. The caller stops it. */
export async function startCountingPetstore() {
  const { workers, processId, stop } = await startWorkers([
    {
      file: "bench/baselines/counting-petstore.ts",
      database: "DB",
      object: { binding: "RATE_LIMITER", className: "RateLimiter" },
    },
  ]);
  const [{ url, database }] = workers;
  return { url, database: await database(), processId, stop };
}

export async function measureObjects(): Promise<ObjectsResult[]> {
  const { url, database, stop } = await startCountingPetstore();

  const exchange = ({ secret }: Key, path = "/v1/pets") => {
    return { path, headers: { Authorization: `Bearer ${secret}` }, status: 200, isExpected: () => true };
  };

  const sendHot = async (key: Key): Promise<number> => {
    const { requestsPerSecond } = await load(url, exchange(key), HOT_SECONDS);
    return requestsPerSecond * HOT_SECONDS;
  };

  const sendSteadily = (perSecond: number, path?: (key: Key) => string) => async (key: Key) => {
    const requests = perSecond * STEADY_SECONDS;
    const startMs = performance.now();
    const until = (ms: number) => wait(Math.max(0, startMs + ms - performance.now()));
    const responses: Promise<void>[] = [];
    for (let request = 0; request < requests; request += 1) {
      await until((request * 1000) / perSecond);
      responses.push(verify(url, exchange(key, path?.(key))));
    }
    await Promise.all(responses);
    await until(STEADY_SECONDS * 1000);
    return requests;
  };

  /** Counts while `sendRequests` uses a new key. It returns how many requests it sent. */
  const measure = async (name: string, sendRequests: (key: Key) => Promise<number>) => {
    progress(`objects: ${name}`);
    const key = await newKeyWithId(database, NO_LIMIT);
    // The first request of a day also sets an alarm.
    await verify(url, exchange(key));
    await wait(SETTLE_MS);
    const before = await countsOf(url, key.id);
    const startedMs = performance.now();
    const requests = await sendRequests(key);
    const seconds = (performance.now() - startedMs) / 1000;
    await wait(SETTLE_MS);
    const after = await countsOf(url, key.id);
    return {
      name,
      requestsPerSecond: requests / seconds,
      callsPerSecond: (after.calls - before.calls) / seconds,
      rowsPerRequest: (after.rowsWritten - before.rowsWritten) / requests,
      met: true,
    };
  };

  try {
    await addTablesAndPets(database, 1_000);
    const hot = await measure("as fast as possible", sendHot);
    const steady = await measure("100 requests/s", sendSteadily(100));
    const unleased = await measure(
      "100 requests/s without leases",
      sendSteadily(100, ({ id }) => `/acquire?key=${id}`),
    );
    const slow = await measure("1 request/s", sendSteadily(1));
    return [
      { ...hot, target: "at most 5 calls/s", met: hot.callsPerSecond <= 5 },
      { ...steady, target: "at most 0.1 rows", met: steady.rowsPerRequest <= 0.1 },
      unleased,
      { ...slow, target: "1 row", met: slow.rowsPerRequest === 1 },
    ];
  } finally {
    await stop();
  }
}

/** The counts of a key's object. */
export async function countsOf(url: URL, keyId: string): Promise<Counts> {
  return (await fetch(new URL(`/counts?key=${keyId}`, url))).json() as Promise<Counts>;
}

export function objectsTable(results: ObjectsResult[]): Table {
  return {
    title: "objects: calls of one key's object, and rows that it writes",
    columns: ["one key", "requests/s", "calls/s", "rows/request"],
    rows: results.map(({ name, requestsPerSecond, callsPerSecond, rowsPerRequest, target, met }) => [
      name,
      whole(requestsPerSecond),
      callsPerSecond.toFixed(2),
      target === undefined ? rowsPerRequest.toFixed(4) : verdict(met, rowsPerRequest.toFixed(4), target),
    ]),
  };
}
