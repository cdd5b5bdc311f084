// The service under test in workerd, with a real database, real Durable Objects, a socket and keys; and the control Worker.

import { addTablesAndPets, NO_LIMIT, newKey } from "../../../bench/cases/pets.ts";
import { PETSTORE } from "../../../bench/measure/implementations.ts";
import { startWorkers } from "../../../bench/measure/workerd.ts";
import { newSecret } from "../../../src/keys/secret.ts";

const PETS = 250;
const LIMITED_KEYS = 20;
const UNKNOWN_KEYS = 1_000;

/** Makes new ids exceed 2^53, to find code that reads an id as a double. */
const NEXT_ID = "UPDATE sqlite_sequence SET seq = CAST(?1 AS INTEGER) WHERE name = 'pets'";

const REQUESTS_UNTIL_BANNED = 63;

export interface Service {
  url: URL;
  /** The address of the control Worker. Undefined for a running service, whose HTTP server is unknown. */
  controlUrl: URL | undefined;
  /** A key that never reaches its limits. */
  secret: string;
  /** Keys with one request per day. */
  limited: string[];
  banned: string[];
  /** Well-formed keys that do not exist. */
  unknown: string[];
  stop(): Promise<void>;
}

/** Starts a service with pets. The caller must stop it. */
export async function startService(): Promise<Service> {
  const { workers, stop } = await startWorkers([PETSTORE, { file: "test/stress/fuzz/control.ts" }]);
  const [petstore, control] = workers;
  if (petstore === undefined || control === undefined) throw new Error("the Workers did not start");
  const database = await petstore.database();
  await addTablesAndPets(database, PETS);
  await database
    .prepare(NEXT_ID)
    .bind(`${2n ** 53n}`)
    .run();
  const secret = await newKey(database, NO_LIMIT);
  const limited = await Promise.all(Array.from({ length: LIMITED_KEYS }, () => newKey(database, 1)));
  const banned = await newKey(database, 1);
  const headers = { Authorization: `Bearer ${banned}` };
  for (let sent = 0; sent < REQUESTS_UNTIL_BANNED; sent += 1) {
    await (await fetch(new URL("/v1/pets", petstore.url), { headers })).arrayBuffer();
  }
  return {
    url: petstore.url,
    controlUrl: control.url,
    secret,
    limited,
    banned: [banned],
    unknown: unknownKeys(),
    stop,
  };
}

/** A running service, and a key that never reaches its limits. */
export function runningService(url: URL, secret: string): Service {
  const stop = async () => {};
  return { url, controlUrl: undefined, secret, limited: [], banned: [], unknown: unknownKeys(), stop };
}

function unknownKeys(): string[] {
  return Array.from({ length: UNKNOWN_KEYS }, newSecret);
}
