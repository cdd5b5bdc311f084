// The baseline in the geo simulation.

import worker, { DurableObjectRateLimiter as Original } from "../baselines/baseline.ts";
import { countsOf, keyIdOf } from "./latency.ts";
import { countedStorage } from "./storage.ts";
import { withLatency } from "./worker.ts";

export class DurableObjectRateLimiter extends Original {
  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(countedStorage(ctx), env);
  }

  override alarm(): Promise<void> {
    countsOf(keyIdOf(this.ctx.id)).objectRequests += 1;
    return super.alarm();
  }
}

export default withLatency(worker);
