// The implementations that the bench compares. Each starts with an empty folder of state, 10,000 pets, and a key whose limits
// no load reaches. The service is src/; the programs of the others are in bench/baselines/.

import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { fillD1, fillSqlite } from "../cases/pets.ts";
import { onExit, temporaryFolder } from "./cleanup.ts";
import { receive, type WireResponse } from "./same-response.ts";
import { type Databases, startWorkers, type WorkerSource } from "./workerd.ts";

export const PETS = 10_000;

/** A running implementation. */
export interface Implementation {
  url: URL;
  /** The header that authenticates a request. */
  authorization: { Authorization: string };
  /** Its D1 databases, if it has any. */
  databases: Databases | undefined;
  processId(): number;
  stop(): Promise<void>;
}

/** The service as in wrangler.toml, without the assets: Cloudflare serves them without running the Worker. */
export const PETSTORE = {
  file: "src/index.ts",
  databases: ["PETS_DB", "KEYS_DB"],
  object: { binding: "API_KEYS", className: "ApiKey" },
} as const satisfies WorkerSource;

export const BASELINE = {
  file: "bench/baselines/baseline.ts",
  databases: ["DB"],
  object: { binding: "CACHE", className: "DurableObjectRateLimiter" },
} as const satisfies WorkerSource;

/** Starts each implementation. */
export const IMPLEMENTATIONS = {
  floor: () => startWorker({ file: "bench/baselines/floor.ts" }),
  "floor-same-response": startFloorSameResponse,
  "d1-floor": () => startWorker({ file: "bench/baselines/d1-floor.ts", databases: ["DB"] }),
  "insert-floor": () => startWorker({ file: "bench/baselines/insert-floor.ts", databases: ["DB"] }),
  baseline: () => startWorker(BASELINE),
  fastify: () => startFastify(),
  "fastify-same-headers": startFastifySameHeaders,
  petstore: () => startWorker(PETSTORE),
} as const;

export type ImplementationName = keyof typeof IMPLEMENTATIONS;

async function startWorker(source: WorkerSource): Promise<Implementation> {
  const { workers, processId, stop } = await startWorkers([source]);
  const [worker] = workers;
  const databases = source.databases && (await worker.databases());
  // An implementation that checks no key gets one too, so that its requests are as long.
  const secret = databases ? await fillD1(databases, PETS) : newSecret(newKeyId());
  return { url: worker.url, authorization: bearer(secret), databases, processId, stop };
}

async function startFloorSameResponse(): Promise<Implementation> {
  const { headers, body } = await hotList();
  const values = { RESPONSE: { headers, body } };
  return startWorker({ file: "bench/baselines/floor-same-response.ts", values });
}

async function startFastifySameHeaders(): Promise<Implementation> {
  const { headers } = await hotList();
  return startFastify("same-headers", new Headers(headers).get("Access-Control-Expose-Headers") ?? "");
}

let hotListResponse: Promise<WireResponse> | undefined;

/** The service's response to a request for the first page. */
function hotList(): Promise<WireResponse> {
  hotListResponse ??= receiveHotList();
  return hotListResponse;
}

async function receiveHotList(): Promise<WireResponse> {
  const { url, authorization, stop } = await startWorker(PETSTORE);
  try {
    return await receive(new URL("/v1/pets", url), authorization);
  } finally {
    await stop();
  }
}

/** The words are arguments of fastify.ts. */
async function startFastify(...words: string[]): Promise<Implementation> {
  const { folder, remove } = temporaryFolder();
  const file = join(folder, "pets.sqlite");
  const database = new DatabaseSync(file);
  const secret = await fillSqlite(database, PETS);
  database.close();
  const child = fork(join(import.meta.dirname, "../baselines/fastify.ts"), [file, ...words], {
    execArgv: ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    env: { ...process.env, NODE_ENV: "production" },
  });
  const processId = () => child.pid ?? 0;
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
  return { url: new URL(`${url}`), authorization: bearer(secret), databases: undefined, processId, stop };
}

function bearer(secret: string): { Authorization: string } {
  return { Authorization: `Bearer ${secret}` };
}
