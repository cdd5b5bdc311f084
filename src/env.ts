// The types that every route and middleware shares: the bindings (generated from wrangler.toml) and what
// earlier middleware leaves for later ones. Nobody else declares Hono's type parameters.

import type { Key } from "./keys/store.ts";
import type { Decision } from "./rate-limit/window.ts";

export interface AppEnv {
  Bindings: Env;
  Variables: {
    /** When the request arrived, in Unix time. Set by `recordArrival`, like the next. */
    nowMs: number;
    /** Names the request in its response and in the log. */
    requestId: string;
    /** Who calls: their key if it is valid, and whether they sent any. Set by `identifyCaller`. */
    caller: { key?: Key; sentKey: boolean };
    /** What the rate limit says. Set by `rateLimit`; absent when the request did not get that far. */
    decision?: Decision;
  };
}
