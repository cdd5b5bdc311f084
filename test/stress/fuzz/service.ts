// What is fuzzed: the service in workerd with a real database and real Durable Objects, behind a socket of its own, and
// with it the keys that requests are sent with. Beside it runs a Worker that does nothing, which tells what the server
// answers by itself.

import { addTablesAndPets, NO_LIMIT, newKey } from "../../../bench/cases/pets.ts";
import { PETSTORE } from "../../../bench/measure/implementations.ts";
import { startWorkers } from "../../../bench/measure/workerd.ts";
import { newSecret } from "../../../src/keys/secret.ts";

const PETS = 250;
const LIMITED_KEYS = 20;
const UNKNOWN_KEYS = 1_000;

/** Makes new ids larger than JavaScript can count, so that whoever takes one for a number is found out. */
const NEXT_ID = "UPDATE sqlite_sequence SET seq = CAST(?1 AS INTEGER) WHERE name = 'pets'";

/** What a key gets that is sent again and again after a 429: see the contract of bans in the guide. */
const REQUESTS_UNTIL_BANNED = 63;

export interface Service {
  url: URL;
  /** Where a Worker listens that does nothing but read requests; undefined if nobody knows what else runs there. */
  controlUrl: URL | undefined;
  /** A key that is never at its limit. */
  secret: string;
  /** Keys that are let in once a day. */
  limited: string[];
  /** Keys that are banned. */
  banned: string[];
  /** Keys of the right form that nobody has. */
  unknown: string[];
  stop(): Promise<void>;
}

/** Starts a service with some pets. Whoever started it stops it. */
export async function startService(): Promise<Service> {
  const { workers, stop } = await startWorkers([PETSTORE, { file: "test/stress/fuzz/control.ts" }]);
  const [petstore, control] = workers;
  if (petstore === undefined || control === undefined) throw new Error("two Workers were started");
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

/** A service that runs already, for which the caller has a key without limits that matter. */
export function runningService(url: URL, secret: string): Service {
  const stop = async () => {};
  return { url, controlUrl: undefined, secret, limited: [], banned: [], unknown: unknownKeys(), stop };
}

function unknownKeys(): string[] {
  return Array.from({ length: UNKNOWN_KEYS }, newSecret);
}
