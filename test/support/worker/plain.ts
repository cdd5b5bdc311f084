// The Worker of the project `plain`.

export { RateLimiter } from "../../../src/index.ts";

import { scheduled } from "../../../src/scheduled.ts";
import { app } from "./app.ts";

export default { fetch: app.fetch, scheduled } satisfies ExportedHandler<Env>;
