// The Worker: what Cloudflare runs. Requests go to the app, each key's counters live in a RateLimiter.

export { RateLimiter } from "./rate-limit/limiter.ts";

import { app } from "./app.ts";

export default app;
