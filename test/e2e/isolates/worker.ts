// The Worker as it is, but on a clock that stands still until a test sets it. One of these runs in each isolate.

import { WorkerEntrypoint } from "cloudflare:workers";
import worker from "../../../src/index.ts";

export { RateLimiter } from "../../../src/index.ts";

let nowMs = 0;
Date.now = () => nowMs;
globalThis.Date = new Proxy(Date, {
  construct: (RealDate, words) => Reflect.construct(RealDate, words.length > 0 ? words : [nowMs]),
});

export default class extends WorkerEntrypoint<Env> {
  override fetch(request: Request): Response | Promise<Response> {
    return worker.fetch(request, this.env, this.ctx);
  }

  /** Sets the clock of this isolate, which is also that of the Durable Objects in it. */
  setClock(ms: number): void {
    nowMs = ms;
  }
}
