// The implementations that the bench compares. Each starts with an empty folder of state, 10,000 pets, and a key whose limits
// no load reaches. The service is src/; the programs of the others are in bench/baselines/.

import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { newSecret } from "../../src/keys/secret.ts";
import { fillD1, fillSqlite } from "../cases/pets.ts";
import { onExit, temporaryFolder } from "./cleanup.ts";
import { startWorkers, type WorkerSource } from "./workerd.ts";

export const PETS = 10_000;

/** A running implementation. */
export interface Implementation {
  url: URL;
  /** The header that authenticates a request. */
  authorization: { Authorization: string };
  /** The D1 database, if it has one. */
  database: D1Database | undefined;
  stop(): Promise<void>;
}

/** The service as in wrangler.toml, without the assets: Cloudflare serves them without running the Worker. */
export const PETSTORE = {
  file: "src/index.ts",
  database: "DB",
  object: { binding: "RATE_LIMITER", className: "RateLimiter" },
} as const satisfies WorkerSource;

export const BASELINE = {
  file: "bench/baselines/baseline.ts",
  database: "DB",
  object: { binding: "CACHE", className: "DurableObjectRateLimiter" },
} as const satisfies WorkerSource;

/** Starts each implementation. */
export const IMPLEMENTATIONS = {
  floor: () => startWorker({ file: "bench/baselines/floor.ts" }),
  "d1-floor": () => startWorker({ file: "bench/baselines/d1-floor.ts", database: "DB" }),
  "insert-floor": () => startWorker({ file: "bench/baselines/insert-floor.ts", database: "DB" }),
  baseline: () => startWorker(BASELINE),
  fastify: startFastify,
  petstore: () => startWorker(PETSTORE),
} as const;

export type ImplementationName = keyof typeof IMPLEMENTATIONS;

async function startWorker(source: WorkerSource): Promise<Implementation> {
  const { workers, stop } = await startWorkers([source]);
  const [worker] = workers;
  const database = source.database && (await worker.database());
  // An implementation that checks no key gets one too, so that its requests are as long.
  const secret = database ? await fillD1(database, PETS) : newSecret();
  return { url: worker.url, authorization: bearer(secret), database, stop };
}

async function startFastify(): Promise<Implementation> {
  const { folder, remove } = temporaryFolder();
  const file = join(folder, "pets.sqlite");
  const database = new DatabaseSync(file);
  const secret = await fillSqlite(database, PETS);
  database.close();
  const child = fork(join(import.meta.dirname, "../baselines/fastify.ts"), [file], {
    execArgv: ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    env: { ...process.env, NODE_ENV: "production" },
  });
  const cancelKill = onExit(() => void child.kill());
  const exited = once(child, "exit");
  const [url] = await Promise.race([once(child, "message"), exited.then(() => [])]);
  if (url === undefined) throw new Error("fastify exited before it listened");
  const stop = async () => {
    child.kill();
    await exited;
    cancelKill();
    remove();
  };
  return { url: new URL(`${url}`), authorization: bearer(secret), database: undefined, stop };
}

function bearer(secret: string): { Authorization: string } {
  return { Authorization: `Bearer ${secret}` };
}
