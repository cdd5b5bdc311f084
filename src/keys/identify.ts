// Identifies the caller, as far as the isolate knows; for a key that is new to it, `rateLimit` asks the key's object while a list's page
// is read. No request is refused here, because a 429 has precedence over a 401.

import type { Context, MiddlewareHandler } from "hono";
import { lookupBuckets } from "../http/client-address.ts";
import { logFailure } from "../http/log.ts";
import type { HttpEnv } from "../http/request-context.ts";
import type * as limits from "../limits/isolate/caller.ts";
import type { KnownKeys } from "../limits/isolate/known-keys.ts";
import type { Outlook } from "../limits/windows.ts";
import type { KeyRecord, SecretProblem } from "./record.ts";

export type Caller = limits.Caller<KeyRecord, SecretProblem>;
export type Keys = KnownKeys<KeyRecord, SecretProblem>;

export interface KeysEnv extends HttpEnv {
  Variables: HttpEnv["Variables"] & {
    /** Absent until the key's object has been asked. */
    caller?: Caller;
    /** Set if the request has a well-formed secret. */
    keyRequest?: limits.KeyRequest;
    /** Set by `rateLimit` and GET /v1/usage; absent if the request did not get that far. */
    outlook?: Outlook;
    /** The valid key. Set by `requireKey`. */
    key: KeyRecord;
  };
}

/** Sets `caller` or `keyRequest`, or both. */
export function identify(keys: Keys): MiddlewareHandler<KeysEnv> {
  return function identify(c, next) {
    const token = bearerToken(c.req.header("Authorization")?.trim());
    const credential = token === undefined ? undefined : keys.credentialOf(token);
    if (credential === undefined) {
      c.set("caller", { problem: token === undefined ? "missing" : "unknown" });
      return next();
    }
    const arrivedMs = c.get("nowMs");
    c.set("keyRequest", {
      credential,
      arrivedMs,
      timing: c.get("timing"),
      buckets: () => lookupBuckets(c.req),
      onObjectFailure: (error) => logFailure(c, "limiter_unavailable", error),
    });
    const caller = keys.peek(credential, arrivedMs);
    if (caller !== undefined) setCaller(c, caller);
    return next();
  };
}

/** Sets `caller`, and its log fields. */
export function setCaller(c: Context<KeysEnv>, caller: Caller): void {
  c.set("caller", caller);
  const log = c.get("log");
  log.keyId = caller.keyId;
  log.plan = caller.key?.plan;
}

/** The token of a bearer credential (RFC 6750, section 2.1; the scheme is case-insensitive, RFC 9110, section 11.1). */
function bearerToken(authorization: string | undefined): string | undefined {
  return authorization?.match(/^bearer +(.+)/i)?.[1];
}
