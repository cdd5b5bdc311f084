// The limiter of this service: what it reads of keys, what it logs, and how it answers requests that are refused or lack a valid key. A message
// may say what is wrong with a key, because only a client with its secret sees that.

import { env } from "cloudflare:workers";
import type { Context } from "hono";
import { errorResponse } from "../http/errors.ts";
import { logFailure } from "../http/log.ts";
import { MESSAGES } from "../http/messages.ts";
import type { HttpEnv } from "../http/request-context.ts";
import { RUNTIME } from "../lib/workers-runtime.ts";
import {
  availableMs,
  type Decision,
  headersOf,
  type LimitsEnv,
  left,
  limits,
  secondsToReset,
  tighterWindow,
} from "../limits/index.ts";
import { KEY_POLICY, type Key, type SecretProblem } from "./key.ts";
import { credentialOf } from "./secret.ts";
import { findKey } from "./store.ts";

export interface KeysEnv extends HttpEnv {
  Variables: HttpEnv["Variables"] & LimitsEnv<Key, SecretProblem>["Variables"];
}

const CHALLENGE = 'Bearer realm="petstore"';

export type Limiter = ReturnType<typeof newLimiter>;

export function newLimiter() {
  return limits<Key, SecretProblem, KeysEnv>({
    policy: KEY_POLICY,
    runtime: RUNTIME,
    credentialOf,
    // `env` is read at each use, because Cloudflare may give a running isolate other bindings.
    objectOf: (id) => env.API_KEYS.getByName(id),
    load: (id) => findKey(env.KEYS_DB, id),
    refuse,
    reject(c, problem) {
      // RFC 6750, section 3.
      const challenge = problem === "missing" ? CHALLENGE : `${CHALLENGE}, error="invalid_token"`;
      const headers = { "WWW-Authenticate": challenge };
      return errorResponse(c, { code: "unauthorized", message: MESSAGES.unauthorized[problem], headers });
    },
    onCaller(c, { keyId, key }) {
      const log = c.get("log");
      log.keyId = keyId;
      log.plan = key?.plan;
    },
    onOutlook(c, outlook) {
      headersOf(outlook, c.get("headers"));
      const log = c.get("log");
      const window = tighterWindow(outlook);
      log.window = window;
      log.remaining = left(outlook, window);
    },
    onObjectFailure: (c, error) => logFailure(c, "limiter_unavailable", error),
  });
}

/** Answers `key_banned` or `rate_limit_exceeded`. */
function refuse(c: Context<KeysEnv>, decision: Decision): Response {
  const name = tighterWindow(decision);
  const retry = { seconds: secondsToReset(decision, name), atMs: availableMs(decision, name) };
  const headers = { "Cache-Control": "no-store" };
  if (decision.bannedUntilMs !== undefined) {
    const message = MESSAGES.key_banned.ban(decision.bannedUntilMs, retry);
    return errorResponse(c, { code: "key_banned", message, headers });
  }
  const { key, refusal } = c.get("caller") ?? {};
  const limit = decision.windows[name]?.limit ?? 0;
  const exceeded = MESSAGES.rate_limit_exceeded;
  const withoutKey = refusal === undefined ? exceeded.withoutKey : exceeded.unknownKeys;
  const message = (key === undefined ? withoutKey : exceeded.key)(limit, name, retry);
  return errorResponse(c, { code: "rate_limit_exceeded", message, headers });
}
