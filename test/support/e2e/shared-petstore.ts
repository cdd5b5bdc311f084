// One running service for all tests of a file.

import { afterAll, beforeAll } from "vitest";
import keys from "../../../scripts/keys.ts";
import { runCommandInProcess } from "./in-process.ts";
import { emptyState, type Service, start } from "./petstore.ts";

interface SharedPetstore {
  state: string;
  service: Service;
  origin: string;
  /** Creates a key. `limits` are further options of `npm run keys -- create`. */
  newKey(plan: string, ...limits: string[]): Promise<{ id: string; key: string }>;
  /** Sends a request with a key. */
  call(path: string, key: string, init?: RequestInit): Promise<Response>;
}

/** Starts a service before the first test and stops it after the last one. The properties are set by then. */
export function sharedPetstore(environment: NodeJS.ProcessEnv = {}): SharedPetstore {
  const petstore = { newKey, call } as SharedPetstore;
  let remove: (() => Promise<void>) | undefined;
  let service: Service | undefined;

  beforeAll(async () => {
    const empty = await emptyState();
    remove = empty.remove;
    service = await start(empty.state, { environment });
    Object.assign(petstore, { state: empty.state, service, origin: service.origin });
  });

  afterAll(async () => {
    await service?.stop();
    await remove?.();
  });

  async function newKey(plan: string, ...limits: string[]) {
    const args = ["create", "--name", "a test", "--plan", plan, ...limits, "--json"];
    const { stdout } = await runCommandInProcess(keys, [...args, "--persist-to", petstore.state]);
    return JSON.parse(stdout);
  }

  function call(path: string, key: string, init: RequestInit = {}) {
    const headers = new Headers(init.headers);
    headers.set("Authorization", `Bearer ${key}`);
    return fetch(petstore.origin + path, { ...init, headers });
  }

  return petstore;
}
