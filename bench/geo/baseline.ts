// The baseline in the geo simulation. It does not know Server-Timing, so its calls are recorded here.

import { timedDatabase } from "../../src/d1/timed-database.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { Timing } from "../../src/http/timing.ts";
import worker, { type BaselineEnv, DurableObjectRateLimiter as Original } from "../baselines/baseline.ts";
import { interceptCalls } from "../measure/object-calls.ts";
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

export default withLatency<BaselineEnv["Bindings"]>({
  async fetch(request, env, ctx) {
    const timing = new Timing(Date.now());
    const DB = timedDatabase(env.DB, (work) => timing.time("pets", work));
    const CACHE = interceptCalls(env.CACHE, (_id, call) => timing.time("object", call)) as typeof env.CACHE;
    const response = await worker.fetch(request, { DB, CACHE }, ctx);
    const marked = new Response(response.body, response);
    marked.headers.set(HEADER.serverTiming, timing.header());
    return marked;
  },
});
