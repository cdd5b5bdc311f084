// What Cloudflare charges for a key's object: its calls and the rows that it writes. Measured for a hot key, and for keys at a steady
// rate, without a limit or with one that they use up and go on. The Worker of the simulation counts; here nothing is far away.

import { setTimeout as wait } from "node:timers/promises";
import type { IsolateCounts } from "../geo/latency.ts";
import { PETSTORE } from "../measure/implementations.ts";
import { load, verify } from "../measure/load.ts";
import { progress, type Table, verdict, whole } from "../measure/report.ts";
import { startWorkers, type WorkerSource } from "../measure/workerd.ts";
import { COUNTS_PATH, type Counts, HOMES_PATH } from "../simulation/counts.ts";
import { addTablesAndPets, type Key, NO_LIMIT, newKeyWithId } from "./pets.ts";

const WORKER = {
  ...PETSTORE,
  file: "bench/geo/petstore.ts",
  sharedDatabases: { PETS_DB: "pets", REPLICA: "pets" },
  values: { ROUND_TRIPS: { toReplicaMs: 0, toPrimaryMs: 0, toObjectsMs: [0] } },
} satisfies WorkerSource;

const STEADY_SECONDS = 20;
const PER_SECOND = 100;
const MINUTE_MS = 60_000;

/** A whole minute, because no lease outlasts its minute. */
const HOT_SECONDS = 60;

/** The longest that a lease takes to come back after its last request, with a reserve. */
const SETTLE_MS = 5_000;

/** Of one isolate. A count each second may be late, so it may have two more. */
const MOST_CALLS = 20 + 2;

/** The requests of a key by their name: its limit, and a function that sends them and returns how many. */
type Requests = [name: string, limit: number, send: (url: URL, key: Key) => Promise<number>];

const REQUESTS: Requests[] = [
  ["as fast as possible", NO_LIMIT, sendHot],
  ...[60, 300, 1_000].map(
    (limit): Requests => [`${PER_SECOND} requests/s, limit ${limit}`, limit, sendSteadily],
  ),
  [`${PER_SECOND} requests/s`, NO_LIMIT, sendSteadily],
];

export async function measureObjects(): Promise<Table> {
  const { workers, stop } = await startWorkers([WORKER]);
  const [{ url, databases }] = workers;
  try {
    const filled = await databases();
    await addTablesAndPets(filled, 1_000);
    const rows: string[][] = [];
    for (const [name, limit, send] of REQUESTS) {
      progress(`objects: ${name}`);
      const key = await newKeyWithId(filled.keys, limit);
      rows.push([name, ...(await measureKey(url, key, send))]);
    }
    return {
      title: "objects: calls of one key's object, and rows that it writes",
      columns: ["one key", "requests/s", "calls/s", "rows/request", "most calls in a second"],
      rows,
    };
  } finally {
    await stop();
  }
}

/** Counts while `send` uses a new key. */
async function measureKey(url: URL, key: Key, send: Requests[2]): Promise<string[]> {
  await fetch(new URL(HOMES_PATH, url), { method: "POST", body: JSON.stringify({ [key.id]: 0 }) });
  // Within one minute, if it takes less.
  const leftMs = MINUTE_MS - (Date.now() % MINUTE_MS);
  if (leftMs < (STEADY_SECONDS + 4) * 1000) await wait(leftMs);
  // The first request of a day also sets an alarm.
  await verify(url, exchangeOf(key));
  await wait(SETTLE_MS);
  const before = await countsOf(url, key);
  const startedMs = performance.now();
  const bySecond: number[] = [];
  const sending = send(url, key);
  let requests: number | undefined;
  for (let calls = before.objectRequests; requests === undefined; ) {
    requests = await Promise.race([sending, wait(1_000, undefined)]);
    const { objectRequests } = await countsOf(url, key);
    bySecond.push(objectRequests - calls);
    calls = objectRequests;
  }
  const seconds = (performance.now() - startedMs) / 1000;
  await wait(SETTLE_MS);
  const after = await countsOf(url, key);
  progress(`objects: calls in each second: ${bySecond.join(" ")}`);
  const most = Math.max(...bySecond);
  return [
    whole(requests / seconds),
    ((after.objectRequests - before.objectRequests) / seconds).toFixed(2),
    ((after.rowsWritten - before.rowsWritten) / requests).toFixed(4),
    verdict(most, MOST_CALLS, whole(most)),
  ];
}

async function sendHot(url: URL, key: Key): Promise<number> {
  return (await load(url, exchangeOf(key), HOT_SECONDS)).requests;
}

/** Sends requests at a steady rate. The key's limit may refuse them. */
async function sendSteadily(url: URL, key: Key): Promise<number> {
  const { path, headers } = exchangeOf(key);
  const startMs = performance.now();
  const until = (ms: number) => wait(Math.max(0, startMs + ms - performance.now()));
  const statuses: Promise<number>[] = [];
  for (let request = 0; request < PER_SECOND * STEADY_SECONDS; request += 1) {
    await until((request * 1000) / PER_SECOND);
    const response = fetch(new URL(path, url), { headers });
    statuses.push(response.then((each) => each.text().then(() => each.status)));
  }
  const unexpected = (await Promise.all(statuses)).find((status) => status !== 200 && status !== 429);
  if (unexpected !== undefined) throw new Error(`objects: a request got ${unexpected}`);
  await until(STEADY_SECONDS * 1000);
  return statuses.length;
}

function exchangeOf({ secret }: Key) {
  const headers = { Authorization: `Bearer ${secret}` };
  return { path: "/v1/pets", headers, status: 200, isExpected: () => true };
}

async function countsOf(url: URL, { id }: Key): Promise<Counts> {
  const { byKey } = (await (await fetch(new URL(COUNTS_PATH, url))).json()) as IsolateCounts;
  const counts = byKey[id];
  if (counts === undefined) throw new Error("objects: the key's object was not called");
  return counts;
}
