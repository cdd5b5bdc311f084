// The service in the geo simulation.

import worker, { ApiKey as Original } from "../../src/index.ts";
import { countsOf, delayedDatabase, keyIdOf, toObjectMs } from "./latency.ts";
import { countedStorage } from "./storage.ts";
import { type GeoEnv, withLatency } from "./worker.ts";

export class ApiKey extends Original {
  constructor(ctx: DurableObjectState, env: Env & GeoEnv) {
    // Of the region in which the object is.
    const toPrimaryMs = toObjectMs(keyIdOf(ctx.id), env.ROUND_TRIPS);
    const KEYS_DB = delayedDatabase(env.KEYS_DB, env.REPLICA, { ...env.ROUND_TRIPS, toPrimaryMs });
    super(countedStorage(ctx), { ...env, KEYS_DB });
  }

  override alarm(): Promise<void> {
    countsOf(keyIdOf(this.ctx.id)).objectRequests += 1;
    return super.alarm();
  }
}

export default withLatency(worker);
