// The service, but the object of a key that may make 61 requests a day crashes once, when all requests of a burst wait for it.

import { RateLimiter as Original } from "../../../src/index.ts";

export { default } from "../../../src/index.ts";

const CRASH_AFTER_MS = 300;

const crashed = new Set<string>();

export class RateLimiter extends Original {
  override acquire(...words: Parameters<Original["acquire"]>) {
    const result = super.acquire(...words);
    const [limits] = words;
    const id = this.ctx.id.toString();
    if (limits.day !== 61 || crashed.has(id)) return result;
    const crash = () => {
      crashed.add(id);
      this.ctx.abort();
    };
    return scheduler.wait(CRASH_AFTER_MS).then(crash) as never;
  }
}
