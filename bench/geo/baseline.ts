// The textbook's service in the world.

import worker, { DurableObjectRateLimiter as Original } from "../baselines/baseline.ts";
import { counts } from "./distance.ts";
import { countedStorage } from "./storage.ts";
import { inWorld } from "./worker.ts";

export class DurableObjectRateLimiter extends Original {
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(countedStorage(ctx), env);
  }

  override alarm(): Promise<void> {
    counts.objectRequests += 1;
    return super.alarm();
  }
}

export default inWorld(worker);
