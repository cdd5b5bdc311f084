// What Cloudflare charges for a key's object: its calls and the rows that it writes. Measured for a hot key, for keys at a
// steady rate that use up a limit and go on, and for a key without leases, as when its requests are spread over many isolates.

import { setTimeout as wait } from "node:timers/promises";
import { PETSTORE } from "../measure/implementations.ts";
import { load, verify } from "../measure/load.ts";
import { progress, type Table, verdict, whole } from "../measure/report.ts";
import { startWorkers } from "../measure/workerd.ts";
import { addTablesAndPets, type Key, NO_LIMIT, newKeyWithId } from "./pets.ts";

const STEADY_SECONDS = 20;
const MINUTE_MS = 60_000;

/** A whole minute, because no lease outlasts its minute. */
const HOT_SECONDS = 60;

/** The longest that a lease takes to come back after its last request, with a reserve. */
const SETTLE_MS = 5_000;

/** Of one isolate. A count each second may be late, so it may have two more. */
const MOST_CALLS = 5 + 2;

export interface ObjectsResult {
  name: string;
  requestsPerSecond: number;
  callsPerSecond: number;
  /** The most calls in a second. */
  mostCalls: number;
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

/** Starts the service with objects that count, and empty databases. The caller stops it. */
export async function startCountingPetstore() {
  const source = { ...PETSTORE, file: "bench/baselines/counting-petstore.ts" };
  const { workers, processId, stop } = await startWorkers([source]);
  const [{ url, databases }] = workers;
  return { url, databases: await databases(), processId, stop };
}

export async function measureObjects(): Promise<ObjectsResult[]> {
  const { url, databases, stop } = await startCountingPetstore();

  const exchange = ({ secret }: Key, path = "/v1/pets") => {
    return { path, headers: { Authorization: `Bearer ${secret}` }, status: 200, isExpected: () => true };
  };

  /** Sends one request, which may be refused. */
  const send = async ({ secret }: Key) => {
    const response = await fetch(new URL("/v1/pets", url), {
      headers: { Authorization: `Bearer ${secret}` },
    });
    await response.text();
    if (response.status !== 200 && response.status !== 429) throw new Error(`got ${response.status}`);
  };

  const sendHot = async (key: Key): Promise<number> => {
    const { requestsPerSecond } = await load(url, exchange(key), HOT_SECONDS);
    return requestsPerSecond * HOT_SECONDS;
  };

  const sendSteadily = (perSecond: number, sendOne: (key: Key) => Promise<void>) => async (key: Key) => {
    const requests = perSecond * STEADY_SECONDS;
    const startMs = performance.now();
    const until = (ms: number) => wait(Math.max(0, startMs + ms - performance.now()));
    const responses: Promise<void>[] = [];
    for (let request = 0; request < requests; request += 1) {
      await until((request * 1000) / perSecond);
      responses.push(sendOne(key));
    }
    await Promise.all(responses);
    await until(STEADY_SECONDS * 1000);
    return requests;
  };

  /** Counts while `sendRequests` uses a new key. It returns how many requests it sent. */
  const measure = async (name: string, limit: number, sendRequests: (key: Key) => Promise<number>) => {
    progress(`objects: ${name}`);
    const key = await newKeyWithId(databases.keys, limit);
    // Within one minute, if it takes less.
    const leftMs = MINUTE_MS - (Date.now() % MINUTE_MS);
    if (leftMs < (STEADY_SECONDS + 4) * 1000) await wait(leftMs);
    // The first request of a day also sets an alarm.
    await verify(url, exchange(key));
    await wait(SETTLE_MS);
    const before = await countsOf(url, key.id);
    const startedMs = performance.now();
    const bySecond: number[] = [];
    const stopped = new AbortController();
    const counting = (async () => {
      for (let { calls } = before; !stopped.signal.aborted; ) {
        await wait(1_000);
        const now = await countsOf(url, key.id);
        bySecond.push(now.calls - calls);
        calls = now.calls;
      }
    })();
    const requests = await sendRequests(key);
    const seconds = (performance.now() - startedMs) / 1000;
    stopped.abort();
    await counting;
    await wait(SETTLE_MS);
    const after = await countsOf(url, key.id);
    progress(`objects: calls in each second: ${bySecond.join(" ")}`);
    return {
      name,
      requestsPerSecond: requests / seconds,
      callsPerSecond: (after.calls - before.calls) / seconds,
      mostCalls: Math.max(...bySecond),
      rowsPerRequest: (after.rowsWritten - before.rowsWritten) / requests,
      met: true,
    };
  };

  try {
    await addTablesAndPets(databases, 1_000);
    const results = [await measure("as fast as possible", NO_LIMIT, sendHot)];
    for (const limit of [60, 300, 1_000, NO_LIMIT]) {
      const name = limit === NO_LIMIT ? "100 requests/s" : `100 requests/s, limit ${limit}`;
      results.push(await measure(name, limit, sendSteadily(100, send)));
    }
    const target = `at most ${MOST_CALLS} calls in a second`;
    const fromOneIsolate = results.map((each) => ({ ...each, target, met: each.mostCalls <= MOST_CALLS }));
    const acquire = (key: Key) => verify(url, exchange(key, `/acquire?key=${key.id}`));
    const unleased = await measure("100 requests/s without leases", NO_LIMIT, sendSteadily(100, acquire));
    const slow = await measure("1 request/s", NO_LIMIT, sendSteadily(1, send));
    return [...fromOneIsolate, unleased, slow];
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
    columns: ["one key", "requests/s", "calls/s", "rows/request", "most calls in a second"],
    rows: results.map(
      ({ name, requestsPerSecond, callsPerSecond, mostCalls, rowsPerRequest, target, met }) => [
        name,
        whole(requestsPerSecond),
        callsPerSecond.toFixed(2),
        rowsPerRequest.toFixed(4),
        target === undefined ? whole(mostCalls) : verdict(met, whole(mostCalls), target),
      ],
    ),
  };
}
