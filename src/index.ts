// The Worker's exports: the app, the cron trigger and the Durable Object class.

export { ApiKey } from "./keys/api-key.ts";

import { app } from "./app.ts";
import { scheduled } from "./scheduled.ts";

export default { fetch: app.fetch, scheduled } satisfies ExportedHandler<Env>;
