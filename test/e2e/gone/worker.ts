// The service with a gate before its bindings. While the gate of a binding is shut, calls of it wait there: before they are
// made, or with their answer. The gate is worked through a path of its own, /gate.

import app, { RateLimiter } from "../../../src/index.ts";
import { stubDatabase, stubLimiters } from "../../support/worker/stub-bindings.ts";

export { RateLimiter };

/** The binding whose calls wait, where they do, and how many have come there. */
interface Gate {
  binding: "DB" | "RATE_LIMITER" | null;
  place: "before" | "after";
  waiting: number;
}

let gate: Gate = { binding: null, place: "before", waiting: 0 };

/** Waits until the gate is another one. A Worker's request can't wait for what another one does, but it can look. */
async function waitAt(shut: Gate): Promise<void> {
  shut.waiting += 1;
  while (gate === shut) await scheduler.wait(1);
}

/** Has each call of a binding wait where the gate says. */
function through(binding: Gate["binding"]) {
  return async (call: () => Promise<unknown>) => {
    const met = gate;
    if (met.binding !== binding) return call();
    if (met.place === "before") await waitAt(met);
    const result = await call();
    if (met.place === "after") await waitAt(met);
    return result;
  };
}

export default {
  async fetch(request, env, ctx) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/gate") {
      if (request.method === "POST") gate = { ...Object.fromEntries(searchParams), waiting: 0 } as Gate;
      return Response.json(gate.waiting);
    }
    const gated = {
      ...env,
      DB: stubDatabase(env.DB, through("DB")),
      RATE_LIMITER: stubLimiters(env.RATE_LIMITER, through("RATE_LIMITER")),
    };
    return app.fetch(request, gated, ctx);
  },
} satisfies ExportedHandler<Env>;
