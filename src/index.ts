// The Worker, as Cloudflare runs it: requests go to the app, and the counters of each API key live in a RateLimiter.
// Nothing else is exported, and nothing is decided here.

export { RateLimiter } from "./rate-limit/limiter.ts";

import { app } from "./app.ts";

export default app;
