// Runs one contestant in the world: a Worker in each region and one at home, where the objects live, a database, and its
// replicas. The replicas are databases of their own, into which new pets are copied once a second, so that whoever trusts a
// replica too far is found out. How far behind Cloudflare's are, nobody says; usually less than that.

import { createKey } from "../../src/keys/admin.ts";
import { insertKey } from "../../src/keys/store.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import { pagePath } from "../cases/cursor.ts";
import { addTablesAndPets } from "../cases/pets.ts";
import { PETS, PETSTORE, TEXTBOOK } from "../measure/implementations.ts";
import { type RunningWorker, startWorkers, type WorkerSource } from "../measure/workerd.ts";
import { Clients, type Dialect, type Sample } from "./clients.ts";
import { type Counts, sum } from "./counts.ts";
import { REGIONS } from "./regions.ts";
import { type Habit, LIMITS, type Visit } from "./visits.ts";
import { COUNTS_PATH } from "./worker.ts";

const LAG_MS = 1_000;

/** How often it is looked how long an answer takes for which nothing has to be done. */
const PROBE_MS = 250;

/** After the last answer: what is done in the background is paid for too. */
const AFTERWARDS_MS = 2_000;

export interface WorldContestant {
  file: string;
  object: NonNullable<WorkerSource["object"]>;
  dialect: Dialect;
}

export const WORLD_CONTESTANTS = {
  petstore: {
    ...PETSTORE,
    file: "bench/geo/petstore.ts",
    dialect: {
      page: (firstId, limit) => (firstId === 1 ? `/v1/pets?limit=${limit}` : pagePath(firstId, limit)),
      next: ({ link }) => {
        const url = /^<([^>]+)>; rel="next"$/.exec(`${link}`)?.[1];
        if (url === undefined) throw new Error(`there is no way to the next page: Link: ${link}`);
        const { pathname, search } = new URL(url);
        return `${pathname}${search}`;
      },
    },
  },
  textbook: {
    ...TEXTBOOK,
    file: "bench/geo/baseline.ts",
    dialect: {
      page: (firstId, limit) => `/v1/pets?limit=${limit}&after=${firstId - 1}`,
      next: (_headers, lastId, limit) => `/v1/pets?limit=${limit}&after=${lastId}`,
    },
  },
} as const satisfies Record<string, WorldContestant>;

export type WorldContestantName = keyof typeof WORLD_CONTESTANTS;

/** What became of all visits. */
export interface WorldRun {
  samples: Sample[];
  counts: Counts;
  /** How long answers took meanwhile for which nothing has to be done: what this machine adds to every request. */
  idleMs: number[];
}

/** Throws if any answer is not the expected one. */
export async function runInWorld(contestant: WorldContestant, visits: readonly Visit[]): Promise<WorldRun> {
  const { workers, stop } = await startWorkers(sources(contestant));
  try {
    const home = workers.at(-1);
    if (home === undefined) throw new Error("no Worker runs");
    const places = workers.slice(0, REGIONS.length);
    const primary = await home.database();
    const replicas = await Promise.all(places.map((each) => each.database("REPLICA")));
    for (const database of [primary, ...replicas]) await addTablesAndPets(database, PETS);
    const secrets = await makeKeys([primary, ...replicas], visits);
    await wake(places);

    const clients = new Clients(
      places.map(({ url }) => url),
      secrets,
      contestant.dialect,
    );
    const idleMs: number[] = [];
    const replication = every(LAG_MS, copying(primary, replicas));
    const probe = every(PROBE_MS, async () => void idleMs.push(await idleAnswer(home)));
    try {
      await Promise.race([send(clients, visits), replication.failed, probe.failed]);
      await new Promise((resolve) => setTimeout(resolve, AFTERWARDS_MS));
    } finally {
      await Promise.all([replication.stop(), probe.stop()]);
      clients.close();
    }
    const all = workers.map(async ({ url }) => (await fetch(new URL(COUNTS_PATH, url))).json());
    return { samples: clients.samples, counts: sum((await Promise.all(all)) as Counts[]), idleMs };
  } finally {
    await stop();
  }
}

/** A Worker in each region, and in the end the one at home. */
function sources({ file, object }: WorldContestant): WorkerSource[] {
  const inHome = { ...object, livesIn: REGIONS.length };
  const source = (replica: string, toReplicaMs: number, toHomeMs: number): WorkerSource => ({
    file,
    object: inHome,
    sharedDatabases: { DB: "primary", REPLICA: replica },
    values: { PLACE: { toReplicaMs, toHomeMs } },
  });
  const places = REGIONS.map(({ name, toReplicaMs, toHomeMs }) => source(name, toReplicaMs, toHomeMs));
  return [...places, source("primary", 0, 0)];
}

/** Makes the keys of all visits, the same in all databases. Returns their secrets by their names. */
async function makeKeys(
  [primary, ...replicas]: D1Database[],
  visits: readonly Visit[],
): Promise<Map<string, string>> {
  if (primary === undefined) throw new Error("there is no database");
  const habits = new Map<string, Habit>(visits.map(({ key, habit }) => [key, habit]));
  const secrets = new Map<string, string>();
  for (const [name, habit] of habits) {
    // The textbook knows no plans, so all limits are agreed ones.
    const newKey = { name, plan: "enterprise", limits: LIMITS[habit], expiresAtMs: null } as const;
    const { key, secret } = await createKey(primary, newKey, Date.now());
    for (const replica of replicas) await insertKey(replica, key, await sha256(secret));
    secrets.set(name, secret);
  }
  return secrets;
}

/** Has each Worker's code loaded, by a request that it refuses: it does not learn anything. */
async function wake(workers: readonly RunningWorker[]): Promise<void> {
  for (const { url } of workers) {
    const { status } = await fetch(new URL("/v1/pets", url));
    if (status !== 401) throw new Error(`a request without a key was answered with ${status}`);
  }
}

/** Sends each visit at its time, whether the ones before are over or not. */
async function send(clients: Clients, visits: readonly Visit[]): Promise<void> {
  const startedMs = performance.now();
  const timers: NodeJS.Timeout[] = [];
  const sent = visits.map(
    (visit) =>
      new Promise<void>((resolve, reject) => {
        const start = () => clients.visit(visit).then(resolve, reject);
        timers.push(setTimeout(start, visit.atMs - (performance.now() - startedMs)));
      }),
  );
  try {
    await Promise.all(sent);
  } finally {
    for (const timer of timers) clearTimeout(timer);
  }
}

/** Does `work` again and again, never twice at a time. `failed` rejects if that does not work. */
function every(
  pauseMs: number,
  work: () => Promise<void>,
): { stop: () => Promise<void>; failed: Promise<never> } {
  let working: Promise<void> | undefined;
  const { promise: failed, reject } = Promise.withResolvers<never>();
  // It may fail when nobody looks any more.
  failed.catch(() => {});
  const timer = setInterval(() => {
    working ??= work()
      .catch(reject)
      .finally(() => {
        working = undefined;
      });
  }, pauseMs);
  const stop = async () => {
    clearInterval(timer);
    await working;
  };
  return { stop, failed };
}

/** What copies new pets from the primary into all replicas. */
function copying(primary: D1Database, replicas: readonly D1Database[]): () => Promise<void> {
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

/** Milliseconds for an answer that needs nothing. */
async function idleAnswer({ url }: RunningWorker): Promise<number> {
  const startedMs = performance.now();
  await (await fetch(new URL(COUNTS_PATH, url))).text();
  return performance.now() - startedMs;
}
