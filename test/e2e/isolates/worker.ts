// The service with a clock that tests stop and set at the path /clock.

import app from "../../../src/index.ts";

export { RateLimiter } from "../../../src/index.ts";

/** Unix time; null while the clock is the real one. */
let stoppedMs: number | null = null;

const realNow = Date.now;
Date.now = () => stoppedMs ?? realNow();
globalThis.Date = new Proxy(Date, {
  construct: (RealDate, args) => Reflect.construct(RealDate, args.length > 0 ? args : [Date.now()]),
});

export default {
  fetch(request, env, ctx) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== "/clock") return app.fetch(request, env, ctx);
    const ms = searchParams.get("ms");
    stoppedMs = ms === null ? null : Number(ms);
    return new Response();
  },
} satisfies ExportedHandler<Env>;
