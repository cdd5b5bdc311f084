// The service with a gate at its bindings. While the gate is closed for a binding, its calls wait before they are made, or before
// their results return. Tests control the gate at the path /gate.

import app, { RateLimiter } from "../../../src/index.ts";
import { stubDatabase, stubLimiters } from "../../support/worker/stub-bindings.ts";

export { RateLimiter };

/** The binding whose calls wait, where they wait, how many do, and how many requests have arrived since the gate was set. */
interface Gate {
  binding: "DB" | "RATE_LIMITER" | null;
  place: "before" | "after";
  waiting: number;
  arrived: number;
}

let gate: Gate = { binding: null, place: "before", waiting: 0, arrived: 0 };

/** Waits until the gate is replaced. It polls, because a request in a Worker can't await another request's promise. */
async function waitAt(closed: Gate): Promise<void> {
  closed.waiting += 1;
  while (gate === closed) await scheduler.wait(1);
}

/** Makes each call of a binding wait as the gate says. */
function gated(binding: Gate["binding"]) {
  return async (call: () => Promise<unknown>) => {
    const current = gate;
    if (current.binding !== binding) return call();
    if (current.place === "before") await waitAt(current);
    const result = await call();
    if (current.place === "after") await waitAt(current);
    return result;
  };
}

export default {
  async fetch(request, env, ctx) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/gate") {
      if (request.method === "POST") {
        gate = { ...Object.fromEntries(searchParams), waiting: 0, arrived: 0 } as Gate;
      }
      return Response.json(gate);
    }
    gate.arrived += 1;
    const gatedEnv = {
      ...env,
      DB: stubDatabase(env.DB, gated("DB")),
      RATE_LIMITER: stubLimiters(env.RATE_LIMITER, gated("RATE_LIMITER")),
    };
    return app.fetch(request, gatedEnv, ctx);
  },
} satisfies ExportedHandler<Env>;
