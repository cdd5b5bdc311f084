// The service in the world.

import worker, { RateLimiter as Original } from "../../src/index.ts";
import { counts } from "./distance.ts";
import { countedStorage } from "./storage.ts";
import { inWorld } from "./worker.ts";

export class RateLimiter extends Original {
  constructor(ctx: DurableObjectState, env: Env) {
    super(countedStorage(ctx), env);
  }

  override alarm(): Promise<void> {
    counts.objectRequests += 1;
    return super.alarm();
  }
}

export default inWorld(worker);
