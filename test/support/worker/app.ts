// The app of the project that runs: in `worker` the app of the service, in `plain` one without optimizations.

import { env } from "cloudflare:workers";
import { createApp, app as service } from "../../../src/app.ts";
import { NONE } from "../../../src/lib/optimizations.ts";

declare global {
  namespace Cloudflare {
    interface Env {
      /** Set in the project `plain`. */
      PLAIN?: boolean;
    }
  }
}

export const app = env.PLAIN ? createApp(NONE) : service;
