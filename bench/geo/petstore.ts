// The service in the geo simulation.

import worker, { RateLimiter as Original } from "../../src/index.ts";
import { countsOf, keyIdOf } from "./latency.ts";
import { countedStorage } from "./storage.ts";
import { withLatency } from "./worker.ts";

export class RateLimiter extends Original {
  constructor(ctx: DurableObjectState, env: Env) {
    super(countedStorage(ctx), env);
  }

  override alarm(): Promise<void> {
    countsOf(keyIdOf(this.ctx.id)).objectRequests += 1;
    return super.alarm();
  }
}

export default withLatency(worker);
