// Simulates one implementation: isolates of a Worker in each region, one more with the objects, databases, and replicas of the
// pets. An isolate is a Worker service of workerd: each loads the code for itself. Those of a region share a replica.
//
// Replicas are separate databases, into which new pets are copied once a second, so that an implementation that trusts a
// replica too far fails. Cloudflare does not publish the lag of its replicas; it is usually shorter.

import { setTimeout as wait } from "node:timers/promises";
import { forEachWindow } from "../../src/keys/plans.ts";
import { MAX_LIMIT } from "../../src/limits/windows.ts";
import { type CreatedKey, createKeys } from "../../src/operators/admin.ts";
import type { NewKey } from "../../src/operators/changes.ts";
import { addTablesAndPets, pagePath } from "../cases/pets.ts";
import { BASELINE, PETS, PETSTORE } from "../measure/implementations.ts";
import { type RunningWorker, startWorkers, type WorkerSource } from "../measure/workerd.ts";
import { COUNTS_PATH, type Counts, HOMES_PATH } from "../simulation/counts.ts";
import { REGIONS, type RoundTrips } from "../simulation/regions.ts";
import { Clients, type Pagination, type Sample } from "./clients.ts";
import type { IsolateCounts } from "./latency.ts";
import { homesOf, LIMITS, type Task } from "./workload.ts";

const LAG_MS = 1_000;

/** After the last response, for background work, which is charged too. */
const SETTLE_MS = 2_000;

type GeoImplementation = Required<Pick<WorkerSource, "file" | "databases" | "object">> & {
  pagination: Pagination;
};

export const GEO_IMPLEMENTATIONS = {
  petstore: {
    ...PETSTORE,
    file: "bench/geo/petstore.ts",
    pagination: {
      first: (firstId, limit) => (firstId === 1 ? `/v1/pets?limit=${limit}` : pagePath(firstId, limit)),
      next: (link) => {
        const url = /^<([^>]+)>; rel="next"$/.exec(link ?? "")?.[1];
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
      next: (_link, lastId, limit) => `/v1/pets?limit=${limit}&after=${lastId}`,
    },
  },
} as const satisfies Record<string, GeoImplementation>;

export interface GeoRun {
  samples: Sample[];
  /** With the name of the key whose object it is, or "". */
  counts: (readonly [string, Counts])[];
  /** Reads of keys at the primary. */
  keyReads: number;
}

/** Throws if any response is not the expected one. `isolates`: in each region. */
export async function simulate(
  implementation: GeoImplementation,
  tasks: readonly Task[],
  isolates: number,
): Promise<GeoRun> {
  const { workers, stop } = await startWorkers(sources(implementation, isolates), true);
  try {
    const primaryWorker = workers.at(-1);
    if (primaryWorker === undefined) throw new Error("no Worker runs");
    const regional = REGIONS.map((_, region) => workers.slice(region * isolates, (region + 1) * isolates));
    const databases = await primaryWorker.databases();
    const replicas = await Promise.all(regional.flatMap(([first]) => first?.database("REPLICA") ?? []));
    await addTablesAndPets(databases, PETS);
    for (const replica of replicas) await addTablesAndPets({ pets: replica, keys: replica }, PETS);
    const keys = await newKeys(databases.keys, tasks);
    const homes = homesOf(tasks);
    const homesById = keys.map(({ key }) => [key.id, homes.get(key.name)]);
    for (const each of workers) await warmUp(each, Object.fromEntries(homesById));

    const urls = regional.map((each) => each.map(({ url }) => url));
    const secrets = new Map(keys.map(({ key, secret }) => [key.name, secret]));
    const clients = new Clients({ urls, secrets, pagination: implementation.pagination });
    const replicate = replication(databases.pets, replicas);
    let isRunning = true;
    const replicating = (async () => {
      for (; isRunning; await wait(LAG_MS)) await replicate();
    })();
    try {
      await Promise.race([runTasks(clients, tasks), replicating]);
      await wait(SETTLE_MS);
    } finally {
      isRunning = false;
      await replicating;
    }
    const names = new Map(keys.map(({ key }) => [key.id, key.name]));
    const all = workers.map(async ({ url }) => (await fetch(new URL(COUNTS_PATH, url))).json());
    const counted = (await Promise.all(all)) as IsolateCounts[];
    const counts = counted
      .flatMap(({ byKey }) => Object.entries(byKey))
      .map(([id, each]) => [names.get(id) ?? "", each] as const);
    const keyReads = counted.reduce((total, each) => total + each.keyReads, 0);
    return { samples: clients.samples, counts, keyReads };
  } finally {
    await stop();
  }
}

/** The isolates of each region, and last, at the primary, the Worker with the objects. */
function sources({ file, databases, object }: GeoImplementation, isolates: number): WorkerSource[] {
  const shared = Object.fromEntries(databases.map((each) => [each, each]));
  const source = (replica: string, { toReplicaMs, toPrimaryMs, toObjectsMs }: RoundTrips): WorkerSource => ({
    file,
    databases,
    object: { ...object, livesIn: REGIONS.length * isolates },
    sharedDatabases: { ...shared, REPLICA: replica },
    values: { ROUND_TRIPS: { toReplicaMs, toPrimaryMs, toObjectsMs } },
  });
  const regional = REGIONS.flatMap((region) =>
    Array.from({ length: isolates }, () => source(region.name, region)),
  );
  const toObjectsMs = REGIONS.map(({ toPrimaryMs }) => toPrimaryMs);
  return [...regional, source("primary", { toReplicaMs: 0, toPrimaryMs: 0, toObjectsMs })];
}

/** Creates the keys of all tasks. The baseline has no plans, so every key has limits of its own. */
function newKeys(database: D1Database, tasks: readonly Task[]): Promise<CreatedKey[]> {
  const clients = new Map(tasks.map(({ key, client }) => [key, client]));
  const keys = Array.from(clients, ([name, client]): NewKey => {
    const limits = { ...forEachWindow(() => MAX_LIMIT), ...LIMITS[client] };
    return { name, plan: "enterprise", limits, expiresAtMs: null };
  });
  return createKeys(database, keys, { by: "bench", nowMs: Date.now() });
}

/** Tells a Worker where each key's objects are, and loads its code by a request without a key, which fills no cache. */
async function warmUp({ url }: RunningWorker, homes: Record<string, number>): Promise<void> {
  await fetch(new URL(HOMES_PATH, url), { method: "POST", body: JSON.stringify(homes) });
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
