// A contestant in a place of the world: the Worker as it is, with bindings that are far away.

import type { Counts } from "./counts.ts";
import { counts, farDatabase, farObjects, type Place, trails } from "./distance.ts";

/** Where the isolate's counts are read. */
export const COUNTS_PATH = "/world/counts";

/** In how many hops, one after the other, a request was answered. */
export const HOPS_HEADER = "World-Hops";

interface WorldEnv {
  PLACE: Place;
  DB: D1Database;
  /** What the nearest replica has of the database. */
  REPLICA: D1Database;
}

/** The Worker in the place that its bindings name. */
export function inWorld<Bindings>(worker: {
  fetch(request: Request, env: Bindings, ctx: ExecutionContext): Response | Promise<Response>;
}): ExportedHandler<WorldEnv> {
  let farEnv: Bindings | undefined;
  return {
    async fetch(request, env, ctx) {
      if (new URL(request.url).pathname === COUNTS_PATH) return Response.json(counts satisfies Counts);
      counts.workerRequests += 1;
      farEnv ??= farBindings(env) as Bindings;
      const bindings = farEnv;
      const trail = { hops: 0 };
      const startedMs = Date.now();
      const response = await trails.run(trail, async () => worker.fetch(request, bindings, ctx));
      // Whoever waits for a call that another request has begun makes none, and yet is a hop later.
      const isLater = Date.now() - startedMs >= env.PLACE.toReplicaMs;
      const hops = trail.hops === 0 && isLater ? 1 : trail.hops;
      const marked = new Response(response.body, response);
      marked.headers.set(HOPS_HEADER, `${hops}`);
      return marked;
    },
  };
}

function farBindings(env: WorldEnv): object {
  const { PLACE, REPLICA, ...bindings } = env;
  const far = Object.entries(bindings).map(([name, binding]: [string, object]) => {
    if (name === "DB") return [name, farDatabase(env.DB, REPLICA, PLACE)];
    if ("idFromName" in binding) return [name, farObjects(binding as DurableObjectNamespace, PLACE)];
    throw new Error(`nobody knows how far away the binding ${name} is`);
  });
  return Object.fromEntries(far);
}
