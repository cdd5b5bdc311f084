// Simulates one implementation: a Worker in each region, one in the primary region with the objects, a database, and replicas.
// Replicas are separate databases, into which new pets are copied once a second, so that an implementation that trusts a
// replica too far fails. Cloudflare does not publish the lag of its replicas; it is usually shorter.

import { setTimeout as wait } from "node:timers/promises";
import { createKey, insertKeys } from "../../src/keys/admin.ts";
import { pagePath } from "../cases/cursor.ts";
import { addTablesAndPets } from "../cases/pets.ts";
import { BASELINE, PETS, PETSTORE } from "../measure/implementations.ts";
import { type RunningWorker, startWorkers, type WorkerSource } from "../measure/workerd.ts";
import { Clients, type Pagination, type Sample } from "./clients.ts";
import { type Counts, sum } from "./counts.ts";
import { REGIONS } from "./regions.ts";
import { COUNTS_PATH } from "./worker.ts";
import { LIMITS, type Task } from "./workload.ts";

const LAG_MS = 1_000;

/** The pause between requests that measure what this machine adds to every request. */
const PROBE_MS = 250;

/** After the last response, for background work, which is charged too. */
const SETTLE_MS = 2_000;

export interface GeoImplementation {
  file: string;
  object: NonNullable<WorkerSource["object"]>;
  pagination: Pagination;
}

export const GEO_IMPLEMENTATIONS = {
  petstore: {
    ...PETSTORE,
    file: "bench/geo/petstore.ts",
    pagination: {
      first: (firstId, limit) => (firstId === 1 ? `/v1/pets?limit=${limit}` : pagePath(firstId, limit)),
      next: ({ link }) => {
        const url = /^<([^>]+)>; rel="next"$/.exec(`${link}`)?.[1];
        if (url === undefined) throw new Error(`no next page in Link: ${link}`);
        const { pathname, search } = new URL(url);
        return `${pathname}${search}`;
      },
    },
  },
  baseline: {
    ...BASELINE,
    file: "bench/geo/baseline.ts",
    pagination: {
      first: (firstId, limit) => `/v1/pets?limit=${limit}&after=${firstId - 1}`,
      next: (_headers, lastId, limit) => `/v1/pets?limit=${limit}&after=${lastId}`,
    },
  },
} as const satisfies Record<string, GeoImplementation>;

export interface GeoRun {
  samples: Sample[];
  counts: Counts;
  /** The times of requests that need no work: what this machine adds to every request. */
  idleMs: number[];
}

/** Throws if any response is not the expected one. */
export async function simulate(implementation: GeoImplementation, tasks: readonly Task[]): Promise<GeoRun> {
  const { workers, stop } = await startWorkers(sources(implementation));
  try {
    const primaryWorker = workers.at(-1);
    if (primaryWorker === undefined) throw new Error("no Worker runs");
    const regional = workers.slice(0, REGIONS.length);
    const primary = await primaryWorker.database();
    const replicas = await Promise.all(regional.map((each) => each.database("REPLICA")));
    for (const database of [primary, ...replicas]) await addTablesAndPets(database, PETS);
    const secrets = await createKeys(primary, replicas, tasks);
    for (const each of regional) await warmUp(each);

    const urls = regional.map(({ url }) => url);
    const clients = new Clients(urls, secrets, implementation.pagination);
    const idleMs: number[] = [];
    const stopped = new AbortController();
    const background = Promise.all([
      repeat(LAG_MS, stopped.signal, replication(primary, replicas)),
      repeat(PROBE_MS, stopped.signal, async () => void idleMs.push(await idleRequestMs(primaryWorker))),
    ]);
    try {
      await Promise.race([runTasks(clients, tasks), background]);
      await wait(SETTLE_MS);
    } finally {
      stopped.abort();
      await background;
      clients.close();
    }
    const all = workers.map(async ({ url }) => (await fetch(new URL(COUNTS_PATH, url))).json());
    return { samples: clients.samples, counts: sum((await Promise.all(all)) as Counts[]), idleMs };
  } finally {
    await stop();
  }
}

/** A Worker for each region, and last the one in the primary region. */
function sources({ file, object }: GeoImplementation): WorkerSource[] {
  const source = (replica: string, toReplicaMs: number, toPrimaryMs: number): WorkerSource => ({
    file,
    object: { ...object, livesIn: REGIONS.length },
    sharedDatabases: { DB: "primary", REPLICA: replica },
    values: { ROUND_TRIPS: { toReplicaMs, toPrimaryMs } },
  });
  const regional = REGIONS.map(({ name, toReplicaMs, toPrimaryMs }) =>
    source(name, toReplicaMs, toPrimaryMs),
  );
  return [...regional, source("primary", 0, 0)];
}

/** Creates the keys of all tasks, the same in all databases. Returns their secrets by name. */
async function createKeys(primary: D1Database, replicas: D1Database[], tasks: readonly Task[]) {
  const secrets = new Map<string, string>();
  for (const [name, client] of new Map(tasks.map(({ key, client }) => [key, client]))) {
    // The baseline has no plans, so every key has limits of its own.
    const options = { name, plan: "enterprise", limits: LIMITS[client], expiresAtMs: null } as const;
    const operator = { by: "bench", nowMs: Date.now() };
    const created = await createKey(primary, options, operator);
    for (const replica of replicas) await insertKeys(replica, [created], operator);
    secrets.set(name, created.secret);
  }
  return secrets;
}

/** Loads the code of a Worker by a request without a key, which fills no cache. */
async function warmUp({ url }: RunningWorker): Promise<void> {
  const { status } = await fetch(new URL("/v1/pets", url));
  if (status !== 401) throw new Error(`a request without a key got ${status}`);
}

/** Starts each task at its time, whether earlier ones have ended or not. */
async function runTasks(clients: Clients, tasks: readonly Task[]): Promise<void> {
  const startedMs = performance.now();
  const cancelled = new AbortController();
  const run = async (task: Task) => {
    await wait(task.atMs - (performance.now() - startedMs), undefined, { signal: cancelled.signal });
    await clients.run(task);
  };
  try {
    await Promise.all(tasks.map(run));
  } finally {
    cancelled.abort();
  }
}

async function repeat(pauseMs: number, stopped: AbortSignal, work: () => Promise<void>): Promise<void> {
  while (!stopped.aborted) {
    await wait(pauseMs);
    await work();
  }
}

/** Copies new pets from the primary to all replicas, each time it is called. */
function replication(primary: D1Database, replicas: readonly D1Database[]): () => Promise<void> {
  let lastId = PETS;
  return async () => {
    const { results } = await primary
      .prepare("SELECT id, name, category_id, status FROM pets WHERE id > ?1 ORDER BY id")
      .bind(lastId)
      .all<{ id: number; name: string; category_id: number; status: string | null }>();
    if (results.length === 0) return;
    for (const replica of replicas) {
      const insert = replica.prepare(
        "INSERT INTO pets (id, name, category_id, status) VALUES (?1, ?2, ?3, ?4)",
      );
      await replica.batch(
        results.map(({ id, name, category_id, status }) => insert.bind(id, name, category_id, status)),
      );
    }
    lastId = results.at(-1)?.id ?? lastId;
  };
}

/** The milliseconds of a request that needs no work. */
async function idleRequestMs({ url }: RunningWorker): Promise<number> {
  const startedMs = performance.now();
  await (await fetch(new URL(COUNTS_PATH, url))).text();
  return performance.now() - startedMs;
}
