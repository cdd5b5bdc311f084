// The clients of keys' objects in an isolate. The oldest are evicted first, however much they are used: for this isolate the key is then new.
// Timers still report a client's lease and decisions, unless an outage lasts longer than they do.

import { BoundedMap } from "../../lib/bounded-map.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { KeyClient, type KeyObject } from "./key-client.ts";

/** Together about 5 MB of the 128 that an isolate has; ten times that if all of them have much to report. */
const MAX_CLIENTS = 5_000;
/** Clients of keys that are not known to exist: a flood of guesses evicts only these. */
const MAX_STRANGERS = 1_000;

export class KeyClients {
  readonly #clients = new BoundedMap<string, KeyClient>(MAX_CLIENTS);
  readonly #strangers = new BoundedMap<string, KeyClient>(MAX_STRANGERS);
  readonly #newClient: (id: string) => KeyClient;

  constructor(runtime: Runtime, objectOf: (id: string) => KeyObject) {
    this.#newClient = (id) => new KeyClient(runtime, () => objectOf(id));
  }

  find(id: string): KeyClient | undefined {
    return this.#clients.get(id) ?? this.#strangers.get(id);
  }

  get(id: string): KeyClient {
    const known = this.find(id);
    if (known !== undefined) return known;
    const client = this.#newClient(id);
    this.#strangers.set(id, client);
    return client;
  }

  /** Keeps the client of a key that exists. */
  keep(id: string, client: KeyClient): void {
    this.#clients.set(id, client);
    this.#strangers.delete(id);
  }
}
