// The service under test: in workerd, with real databases, real Durable Objects and a socket; or one that is running.

import { addTablesAndPets, NO_LIMIT, newKey } from "../../../bench/cases/pets.ts";
import { PETSTORE } from "../../../bench/measure/implementations.ts";
import { startWorkers } from "../../../bench/measure/workerd.ts";
import { client, type Send } from "./http.ts";

const PETS = 250;

/** Makes new ids exceed 2^53, to find code that reads an id as a double. */
const NEXT_ID = `UPDATE sqlite_sequence SET seq = ${2n ** 53n} WHERE name = 'pets'`;

export interface Service {
  send: Send;
  /** A key that never reaches its limits. */
  secret: string;
  /** Whether the client's address is its own, because Cloudflare sets the header. */
  hasRealAddresses: boolean;
  /** A key of its own for each run: Idempotency-Keys of an earlier one are unknown. */
  newSecret(): Promise<string>;
  stop(): Promise<void>;
}

/** A running service, and a key that never reaches its limits. */
export function runningService(url: URL, secret: string): Service {
  const { send, close } = client(url);
  return { send, secret, hasRealAddresses: true, newSecret: async () => secret, stop: async () => close() };
}

/** Starts a service with pets. The caller must stop it. */
export async function startService(): Promise<Service> {
  const { workers, stop } = await startWorkers([PETSTORE]);
  const databases = await workers[0].databases();
  await addTablesAndPets(databases, PETS);
  await databases.pets.prepare(NEXT_ID).run();
  const newSecret = () => newKey(databases.keys, NO_LIMIT);
  return { ...runningService(workers[0].url, ""), newSecret, hasRealAddresses: false, stop };
}
