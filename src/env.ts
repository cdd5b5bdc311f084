// The types that every route and middleware shares: the bindings (generated from wrangler.toml) and what
// earlier middleware leaves for later ones. Nobody else declares Hono's type parameters.

import type { ErrorCode } from "./http/errors.ts";
import type { Failure } from "./http/log.ts";
import type { Caller } from "./keys/authenticate.ts";
import type { Key } from "./keys/store.ts";
import type { Page } from "./pets/store.ts";
import type { Decision } from "./rate-limit/windows.ts";

export interface AppEnv {
  Bindings: Env;
  Variables: {
    /** When the request arrived, in Unix time. Set by `recordArrival`, like the next. */
    nowMs: number;
    /** Names the request in its response and in the log. */
    requestId: string;
    /** Who calls. Set by `identifyCaller`; absent when that failed. */
    caller?: Caller;
    /** The valid key of whoever calls. Set by `requireKey`, so what stands behind that has it. */
    key: Key;
    /** The page that a list asks for, or that is being read. Set by `readAhead`, if it could be foreseen. */
    page?: Page | Promise<Page>;
    /** What the rate limit says. Set by `rateLimit`; absent when the request did not get that far. */
    decision?: Decision;
    /** The code of the error that is answered, for the log. */
    errorCode?: ErrorCode;
    /** What failed on our side, for the log. */
    failures?: Failure[];
  };
}
