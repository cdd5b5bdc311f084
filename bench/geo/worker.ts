// Runs an unchanged Worker with delayed bindings.

import { withEnv } from "cloudflare:workers";
import { COUNTS_PATH, HOMES_PATH } from "../simulation/counts.ts";
import type { RoundTrips } from "../simulation/regions.ts";
import { delayedDatabase, delayedObjects, homes, isolateCounts } from "./latency.ts";

export interface GeoEnv {
  ROUND_TRIPS: RoundTrips;
  /** The nearest replica of the pets. */
  REPLICA: D1Database;
  [binding: string]: object;
}

/** The Worker with bindings that are as far away as ROUND_TRIPS says. */
export function withLatency<Bindings>(worker: {
  fetch(request: Request, env: Bindings, ctx: ExecutionContext): Response | Promise<Response>;
}): ExportedHandler<GeoEnv> {
  let delayedEnv: Bindings | undefined;
  return {
    async fetch(request, env, ctx) {
      const { pathname } = new URL(request.url);
      if (pathname === COUNTS_PATH) return Response.json(isolateCounts);
      if (pathname === HOMES_PATH) {
        Object.assign(homes, await request.json());
        return new Response();
      }
      delayedEnv ??= delayedBindings(env) as Bindings;
      const bindings = delayedEnv;
      const send = async () => worker.fetch(request, bindings, ctx);
      return withEnv(bindings, send) as ReturnType<typeof send>;
    },
  };
}

/** Replicas have the table of keys, but no keys, so that an implementation that reads them there fails. */
function delayedBindings({ ROUND_TRIPS, REPLICA, ...bindings }: GeoEnv): object {
  const delayed = Object.entries(bindings).map(([name, binding]) => {
    if ("prepare" in binding) return [name, delayedDatabase(binding as D1Database, REPLICA, ROUND_TRIPS)];
    if ("idFromName" in binding)
      return [name, delayedObjects(binding as DurableObjectNamespace, ROUND_TRIPS)];
    throw new Error(`the binding ${name} has no distance`);
  });
  return Object.fromEntries(delayed);
}
