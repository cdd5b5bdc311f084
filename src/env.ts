// The types that every route and middleware shares: the bindings (generated from wrangler.toml) and what
// earlier middleware leaves for later ones. Nobody else declares Hono's type parameters.

import type { Caller } from "./keys/identify.ts";
import type { Decision } from "./rate-limit/window.ts";

export interface AppEnv {
  Bindings: Env;
  Variables: {
    /** Names the request in the response and in the log. Set by `requestId`. */
    requestId: string;
    /** Who calls. Set by `identifyCaller`. */
    caller: Caller;
    /** What the rate limit says. Set by `rateLimit`; absent when the request did not get that far. */
    decision?: Decision;
  };
}
