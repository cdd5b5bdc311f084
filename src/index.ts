// The Worker, as Cloudflare runs it: requests go to the app, the cron trigger to `scheduled`, and the counters of each
// API key live in a RateLimiter. Nothing else is exported, and nothing is decided here.

export { RateLimiter } from "./rate-limit/object/rate-limiter.ts";

import { app } from "./app.ts";
import { scheduled } from "./scheduled.ts";

export default { fetch: app.fetch, scheduled } satisfies ExportedHandler<Env>;
