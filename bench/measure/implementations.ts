// The implementations that the bench compares. Each starts with an empty folder of state, 10,000 pets, and a key whose limits
// no load reaches. The service is src/; the programs of the others are in bench/baselines/.

import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { fillD1, fillSqlite } from "../cases/pets.ts";
import { onExit, temporaryFolder } from "./cleanup.ts";
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
  "floor-same-response": async () =>
    startWorker({ file: "bench/baselines/floor-same-response.ts", values: { RESPONSE: await hotList() } }),
  "d1-floor": () => startWorker({ file: "bench/baselines/d1-floor.ts", databases: ["DB"] }),
  "insert-floor": () => startWorker({ file: "bench/baselines/insert-floor.ts", databases: ["DB"] }),
  baseline: () => startWorker(BASELINE),
  fastify: startFastify,
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

/** Headers that belong to the connection or to the encoding of the body. workerd and Node add them without being asked. */
const ADDED_BY_SERVER = new Set(["connection", "content-length", "date", "keep-alive", "transfer-encoding"]);

type HotList = Awaited<ReturnType<typeof receiveHotList>>;

let hotListOfService: Promise<HotList> | undefined;

/** The service's response to a request for the first page. */
function hotList(): Promise<HotList> {
  hotListOfService ??= startWorker(PETSTORE).then((service) => receiveHotList(service).finally(service.stop));
  return hotListOfService;
}

async function receiveHotList({ url, authorization }: Pick<Implementation, "url" | "authorization">) {
  const response = await fetch(new URL("/v1/pets", url), { headers: authorization });
  const headers = [...response.headers].filter(([name]) => !ADDED_BY_SERVER.has(name));
  return { headers: Object.fromEntries(headers), body: await response.text() };
}

/** Throws unless it sends the headers of the service. */
async function startFastify(): Promise<Implementation> {
  const { headers } = await hotList();
  const { folder, remove } = temporaryFolder();
  const file = join(folder, "pets.sqlite");
  const database = new DatabaseSync(file);
  const authorization = bearer(await fillSqlite(database, PETS));
  database.close();
  const words = [file, headers["access-control-expose-headers"] ?? ""];
  const child = fork(join(import.meta.dirname, "../baselines/fastify.ts"), words, {
    execArgv: ["--disable-warning=ExperimentalWarning", "--experimental-strip-types"],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    env: { ...process.env, NODE_ENV: "production" },
  });
  const cancelKill = onExit(() => void child.kill());
  const exited = once(child, "exit");
  const stop = async () => {
    child.kill();
    await exited;
    cancelKill();
    remove();
  };
  const [text] = await Promise.race([once(child, "message"), exited.then(() => [])]);
  if (text === undefined) throw new Error("fastify exited before it listened");
  const url = new URL(`${text}`);
  const [expected, sent] = [headers, (await receiveHotList({ url, authorization })).headers].map((each) =>
    Object.keys(each).sort().join(", "),
  );
  if (sent === expected)
    return { url, authorization, databases: undefined, processId: () => child.pid ?? 0, stop };
  await stop();
  throw new Error(`fastify sends the headers ${sent}; the service sends ${expected}`);
}

function bearer(secret: string): { Authorization: string } {
  return { Authorization: `Bearer ${secret}` };
}
