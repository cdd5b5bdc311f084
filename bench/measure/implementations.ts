// Who runs in the bench, and how each is started: with an empty folder of state, 10,000 pets, and a key without limits
// that matter. Each contestant's program is a file in contestants/; ours is the service itself.

import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { newSecret } from "../../src/keys/secret.ts";
import { fillD1, fillSqlite } from "../cases/pets.ts";
import { atEnd, emptyFolder } from "./cleanup.ts";
import { startWorkers, type WorkerSource } from "./workerd.ts";

export const PETS = 10_000;

/** A contestant that can be loaded. */
export interface Contestant {
  url: URL;
  /** What a request has to send to be let in. */
  authorization: { Authorization: string };
  /** The D1 database, of a Worker that has one. */
  database: D1Database | undefined;
  stop(): Promise<void>;
}

/** The service, as wrangler.toml describes it, but for the assets: Cloudflare serves them without asking the Worker. */
export const PETSTORE = {
  file: "src/index.ts",
  database: "DB",
  object: { binding: "RATE_LIMITER", className: "RateLimiter" },
} as const satisfies WorkerSource;

export const TEXTBOOK = {
  file: "bench/baselines/baseline.ts",
  database: "DB",
  object: { binding: "CACHE", className: "DurableObjectRateLimiter" },
} as const satisfies WorkerSource;

/** How each contestant is started. */
export const CONTESTANTS = {
  floor: () => startWorker({ file: "bench/baselines/floor.ts" }),
  "d1-floor": () => startWorker({ file: "bench/baselines/d1-floor.ts", database: "DB" }),
  "insert-floor": () => startWorker({ file: "bench/baselines/insert-floor.ts", database: "DB" }),
  textbook: () => startWorker(TEXTBOOK),
  fastify: startFastify,
  petstore: () => startWorker(PETSTORE),
} as const;

export type ContestantName = keyof typeof CONTESTANTS;

async function startWorker(source: WorkerSource): Promise<Contestant> {
  const { workers, stop } = await startWorkers([source]);
  const [worker] = workers;
  if (worker === undefined) throw new Error("one Worker was started, and none runs");
  const database = source.database && (await worker.database());
  // Who checks no key is sent one too: it has as much to read.
  const secret = database ? await fillD1(database, PETS) : newSecret();
  return { url: worker.url, authorization: bearer(secret), database, stop };
}

async function startFastify(): Promise<Contestant> {
  const { folder, remove } = emptyFolder();
  const file = join(folder, "pets.sqlite");
  const database = new DatabaseSync(file);
  const secret = await fillSqlite(database, PETS);
  database.close();
  const child = fork(join(import.meta.dirname, "../baselines/fastify.ts"), [file], {
    execArgv: ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    env: { ...process.env, NODE_ENV: "production" },
  });
  const isDone = atEnd(() => void child.kill());
  const exited = once(child, "exit");
  const [url] = await Promise.race([once(child, "message"), exited.then(() => [])]);
  if (url === undefined) throw new Error("fastify ended before it listened");
  const stop = async () => {
    child.kill();
    await exited;
    isDone();
    remove();
  };
  return { url: new URL(`${url}`), authorization: bearer(secret), database: undefined, stop };
}

function bearer(secret: string): { Authorization: string } {
  return { Authorization: `Bearer ${secret}` };
}
