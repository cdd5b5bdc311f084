// The Worker with a clock that stands still until a test sets it.

import { WorkerEntrypoint } from "cloudflare:workers";
import worker from "../../../src/index.ts";

export { RateLimiter } from "../../../src/index.ts";

let nowMs = 0;
Date.now = () => nowMs;
globalThis.Date = new Proxy(Date, {
  construct: (RealDate, args) => Reflect.construct(RealDate, args.length > 0 ? args : [nowMs]),
});

export default class extends WorkerEntrypoint<Env> {
  override fetch(request: Request): Response | Promise<Response> {
    return worker.fetch(request, this.env, this.ctx);
  }

  /** Sets the clock of this isolate and of the Durable Objects in it. */
  setClock(ms: number): void {
    nowMs = ms;
  }
}
