// The service with a gate at its bindings. While the gate is closed for a binding, its calls wait before they are made, or before
// their results return. At the path /gate, POST sets the gate, and GET waits for requests.

import { withEnv } from "cloudflare:workers";
import app, { ApiKey } from "../../../src/index.ts";
import { stubDatabase, stubKeyObjects } from "../../support/worker/stub-bindings.ts";

export { ApiKey };

/** Where calls wait, such as "PETS_DB before"; how many do, and how many requests have arrived since the gate was set. */
let gate = { place: "", waiting: 0, arrived: 0 };

/** Waits until the gate is replaced. It polls, because a request in a Worker can't await another request's promise. */
async function waitAt(closed: typeof gate): Promise<void> {
  closed.waiting += 1;
  while (gate === closed) await scheduler.wait(1);
}

/** Makes each call of a binding wait as the gate says. */
function gated(binding: string) {
  return async (call: () => Promise<unknown>) => {
    const current = gate;
    if (current.place === `${binding} before`) await waitAt(current);
    const result = await call();
    if (current.place === `${binding} after`) await waitAt(current);
    return result;
  };
}

export default {
  async fetch(request, env, ctx) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/gate") {
      const requests = Number(searchParams.get("requests"));
      if (request.method === "POST")
        gate = { place: searchParams.get("place") ?? "", waiting: 0, arrived: 0 };
      else while (gate.waiting === 0 || gate.arrived < requests) await scheduler.wait(1);
      return new Response();
    }
    gate.arrived += 1;
    const PETS_DB = stubDatabase(env.PETS_DB, gated("PETS_DB"));
    const API_KEYS = stubKeyObjects(env.API_KEYS, gated("API_KEYS"));
    const gatedEnv = { ...env, PETS_DB, API_KEYS };
    return withEnv(gatedEnv, () => app.fetch(request, gatedEnv, ctx)) as Promise<Response>;
  },
} satisfies ExportedHandler<Env>;
