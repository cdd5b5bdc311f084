// The objects of keys during a rollout. Each has the code of one release, and keeps it until it starts again. POST /RELEASE says which code
// objects have that start from now on. With `?immediate`, an object of the other release starts again: the call that notices it fails, as calls
// under way do on Cloudflare.

import { DurableObject } from "cloudflare:workers";
// biome-ignore-start lint/correctness/noUndeclaredDependencies: bundles of rollout.test.ts
import { ApiKey as Current } from "current";
import { ApiKey as Older } from "older";

// biome-ignore-end lint/correctness/noUndeclaredDependencies: bundles of rollout.test.ts

const RELEASES: Record<string, typeof Current> = { "/older": Older, "/current": Current };
let Release = Older;
let isImmediate = false;
/** How many objects have started with each code. */
const started = { older: 0, current: 0 };

export class ApiKey extends DurableObject<Env> {
  readonly #release = Release;
  readonly #latest: Current;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#latest = new Release(ctx, env);
    started[Release === Older ? "older" : "current"] += 1;
  }

  get #code(): Current {
    if (isImmediate && this.#release !== Release)
      this.ctx.abort("Durable Object reset because its code was updated.");
    return this.#latest;
  }

  acquire(message: Parameters<Current["acquire"]>[0]) {
    return this.#code.acquire(message);
  }

  identify(secret: string) {
    return this.#code.identify(secret);
  }

  usage() {
    return this.#code.usage();
  }

  override alarm() {
    return this.#code.alarm();
  }
}

export default {
  fetch(request: Request): Response {
    const { pathname, search } = new URL(request.url);
    Release = RELEASES[pathname] ?? Release;
    isImmediate = search === "?immediate";
    return Response.json(started);
  },
};
