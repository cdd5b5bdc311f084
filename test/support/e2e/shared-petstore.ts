// A running service that all test files share, with its real assets, database and objects (global-setup.ts). Tests use keys and pets
// of their own, and do not count those of others.

import { beforeAll, inject } from "vitest";
import type { KeyRequest } from "./global-setup.ts";

interface SharedPetstore {
  origin: string;
  /** The folder of its state, for `--persist-to`. */
  state: string;
  newKey(plan: KeyRequest["plan"], limits?: KeyRequest["limits"]): Promise<{ id: string; key: string }>;
  /** Sends a request with a key. */
  call(path: string, key: string, init?: RequestInit): Promise<Response>;
  /** All lines that the service has logged. A line can come after its response. */
  logLines(): Promise<string[]>;
}

/** The service. `origin` and `state` are set before the first test, which waits until it runs. */
export function sharedPetstore(): SharedPetstore {
  const petstore = { newKey, call, logLines: () => ask("/log") } as SharedPetstore;
  beforeAll(async () => {
    Object.assign(petstore, await ask("/"));
  });

  async function ask<Result>(path: string, body?: object): Promise<Result> {
    const url = new URL(path, inject("petstoreUrl"));
    const response = await fetch(url, body && { method: "POST", body: JSON.stringify(body) });
    const result = await response.json();
    if (!response.ok) throw new Error((result as Error).message);
    return result as Result;
  }

  function newKey(plan: KeyRequest["plan"], limits?: KeyRequest["limits"]) {
    return ask<{ id: string; key: string }>("/keys", { plan, ...(limits && { limits }) });
  }

  function call(path: string, key: string, init: RequestInit = {}) {
    const headers = new Headers(init.headers);
    headers.set("Authorization", `Bearer ${key}`);
    return fetch(petstore.origin + path, { ...init, headers });
  }

  return petstore;
}
