// The implementations that the bench compares. Each starts with an empty folder of state, 10,000 pets, and a key whose limits
// no load reaches. The service is src/; the programs of the others are in bench/baselines/.

import { fillD1 } from "../cases/pets.ts";
import { type Databases, startWorkers, type WorkerSource } from "./workerd.ts";

export const PETS = 10_000;

/** A running implementation. */
export interface Implementation {
  url: URL;
  /** The header that authenticates a request. */
  authorization: { Authorization: string };
  databases: Databases;
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
  floor: () => startWorker({ file: "bench/baselines/floor.ts", databases: ["DB"] }),
  baseline: () => startWorker(BASELINE),
  petstore: () => startWorker(PETSTORE),
} as const;

export type ImplementationName = keyof typeof IMPLEMENTATIONS;

async function startWorker(source: WorkerSource): Promise<Implementation> {
  const { workers, processId, stop } = await startWorkers([source]);
  const [{ url, databases }] = workers;
  const filled = await databases();
  // An implementation that checks no key gets one too, so that its requests are as long.
  const authorization = { Authorization: `Bearer ${await fillD1(filled, PETS)}` };
  return { url, authorization, databases: filled, processId, stop };
}
