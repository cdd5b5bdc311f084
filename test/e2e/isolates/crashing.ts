// The service with an object that crashes in its first call if its key has a limit of 61 requests a day.

import { RateLimiter as Original } from "../../../src/index.ts";

export { default } from "../../../src/index.ts";

/** By then, all requests of a burst wait for the object. */
const CRASH_AFTER_MS = 300;

const crashed = new Set<string>();

export class RateLimiter extends Original {
  override acquire(...args: Parameters<Original["acquire"]>) {
    const result = super.acquire(...args);
    const [limits] = args;
    const id = this.ctx.id.toString();
    if (limits.day !== 61 || crashed.has(id)) return result;
    const crash = () => {
      crashed.add(id);
      this.ctx.abort();
    };
    return scheduler.wait(CRASH_AFTER_MS).then(crash) as never;
  }
}
