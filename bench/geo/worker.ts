// Runs an unchanged Worker with delayed bindings.

import {
  countsByKey,
  delayedDatabase,
  delayedObjects,
  hopCounters,
  type ObjectRoundTrips,
  type RoundTrips,
} from "./latency.ts";

/** The path that returns the isolate's counts. */
export const COUNTS_PATH = "/geo/counts";

/** The path that takes the round trips to objects, as the first request. They are in no binding, because keys get ids later. */
export const OBJECTS_PATH = "/geo/objects";

/** The response header with the number of sequential hops of the request. */
export const HOPS_HEADER = "Geo-Hops";

interface GeoEnv {
  ROUND_TRIPS: RoundTrips;
  DB: D1Database;
  /** The database of the nearest replica. */
  REPLICA: D1Database;
}

/** The Worker with bindings that are as far away as ROUND_TRIPS says. */
export function withLatency<Bindings>(worker: {
  fetch(request: Request, env: Bindings, ctx: ExecutionContext): Response | Promise<Response>;
}): ExportedHandler<GeoEnv> {
  let objects: ObjectRoundTrips = {};
  let delayedEnv: Bindings | undefined;
  return {
    async fetch(request, env, ctx) {
      const { pathname } = new URL(request.url);
      if (pathname === COUNTS_PATH) return Response.json(countsByKey);
      if (pathname === OBJECTS_PATH) {
        objects = await request.json();
        return new Response();
      }
      delayedEnv ??= delayedBindings(env, objects) as Bindings;
      const bindings = delayedEnv;
      const counter = { hops: 0 };
      const startedMs = Date.now();
      const response = await hopCounters.run(counter, async () => worker.fetch(request, bindings, ctx));
      // A request that waits for another request's call makes no call, but takes a hop longer.
      const hasWaited = Date.now() - startedMs >= env.ROUND_TRIPS.toReplicaMs;
      const hops = counter.hops === 0 && hasWaited ? 1 : counter.hops;
      const marked = new Response(response.body, response);
      marked.headers.set(HOPS_HEADER, `${hops}`);
      return marked;
    },
  };
}

function delayedBindings({ ROUND_TRIPS, REPLICA, ...bindings }: GeoEnv, objects: ObjectRoundTrips): object {
  const delayed = Object.entries(bindings).map(([name, binding]: [string, object]) => {
    if (name === "DB") return [name, delayedDatabase(bindings.DB, REPLICA, ROUND_TRIPS)];
    if ("idFromName" in binding) return [name, delayedObjects(binding as DurableObjectNamespace, objects)];
    throw new Error(`the binding ${name} has no distance`);
  });
  return Object.fromEntries(delayed);
}
