// A running service that all test files share, with its real assets, database and objects (global-setup.ts). Tests use keys and pets
// of their own, and do not count those of others.

import { beforeAll, inject } from "vitest";
import { limitsWith } from "../key-record.ts";
import type { KeyRequest } from "./global-setup.ts";

/** The service. `origin` and `state` are set before the first test, which waits until it runs. */
export function sharedPetstore() {
  const petstore = {
    origin: "",
    /** The folder of its state, for `--persist-to`. */
    state: "",
    newKey: (plan: KeyRequest["plan"], limits?: Partial<KeyRequest["limits"]>) =>
      ask<{ id: string; key: string }>("/keys", { plan, limits: limits && limitsWith(limits) }),
    /** Sends a request with a key. */
    call(path: string, key: string, init: RequestInit = {}) {
      const headers = new Headers(init.headers);
      headers.set("Authorization", `Bearer ${key}`);
      return fetch(petstore.origin + path, { ...init, headers });
    },
  };
  beforeAll(async () => {
    Object.assign(petstore, await ask("/"));
  });
  return petstore;
}

async function ask<Result>(path: string, body?: object): Promise<Result> {
  const url = new URL(path, inject("petstoreUrl"));
  const response = await fetch(url, body && { method: "POST", body: JSON.stringify(body) });
  const answer = (await response.json()) as Result & { problem?: string };
  if (answer.problem !== undefined) throw new Error(answer.problem);
  return answer;
}
