// Hono middleware around the keys that an isolate knows: it identifies callers, counts their requests, adds the headers, and has the service
// answer those that it refuses.

import type { Context, MiddlewareHandler } from "hono";
import { Cache } from "../lib/cache.ts";
import { AddressCounter } from "./address-counter.ts";
import { clientAddress, lookupBuckets } from "./client-address.ts";
import { headersOf } from "./headers.ts";
import type { Caller, KeyRequest, Recorder } from "./isolate/caller.ts";
import type { KeysOptions } from "./isolate/key-calls.ts";
import { KnownKeys } from "./isolate/known-keys.ts";
import { MAX_USAGE_AGE_MS } from "./protocol.ts";
import { type Decision, type Outlook, unused } from "./windows.ts";

/** Together about 5 MB of the 128 that an isolate has. */
const MAX_USAGES = 1_000;

/** No longer token is a secret. The names of objects have 1,024 bytes at most, and tokens are kept. */
const MAX_TOKEN_LENGTH = 512;

/** What the middleware reads and sets in Hono's context. */
export interface LimitsEnv<Key extends object = object, Problem extends string = string> {
  Variables: {
    /** When the request arrived (Unix time); by default when `identify` runs. */
    nowMs?: number;
    /** Records what the request waits for. */
    timing?: Recorder;
    /** Set by `identify` if the request has a well-formed secret. */
    keyRequest?: KeyRequest;
    /** Set by `identify` if nobody has to be asked, otherwise by `admit` or `usage`. */
    caller?: Caller<Key, Problem>;
    /** Set by `admit` and `usage`. */
    outlook?: Outlook;
    /** The valid key. Set by `admit`. */
    key: Key;
  };
}

export interface LimiterOptions<Key extends object, Problem extends string, E extends LimitsEnv<Key, Problem>>
  extends KeysOptions<Key, Problem> {
  /** Answers a refused request: status 429 (RFC 6585, section 4). `caller` and `outlook` are set. */
  refuse(c: Context<E>, decision: Decision): Response | Promise<Response>;
  /** Answers a request without a valid key: status 401. */
  reject(c: Context<E>, problem: "missing" | "unknown" | Problem): Response | Promise<Response>;
  /** Is told of the caller whose secret is well-formed, once. */
  onCaller?(c: Context<E>, caller: Caller<Key, Problem>): void;
  /** Is told of the outlook, once, and then has to add its headers (`headersOf`) to the response. By default `headers` adds them. */
  onOutlook?(c: Context<E>, outlook: Outlook): void;
  /** Is told why a key's object could not be asked. */
  onObjectFailure?(c: Context<E>, error: unknown): void;
}

/** The limiter of an isolate. Throws RangeError if the windows don't fit. */
export function limits<
  Key extends object,
  Problem extends string = never,
  E extends LimitsEnv<Key, Problem> = LimitsEnv<Key, Problem>,
>(options: LimiterOptions<Key, Problem, E>) {
  type C = Context<LimitsEnv<Key, Problem>>;
  type Middleware = MiddlewareHandler<LimitsEnv<Key, Problem>>;
  unused(options.policy.windows);
  const keys = new KnownKeys<Key, Problem>(options);
  const addresses = new AddressCounter();
  const usages = new Cache({
    runtime: options.runtime,
    load: (_keyId, request: KeyRequest) => keys.askUsage(request),
    ...{ freshMs: MAX_USAGE_AGE_MS, failureMs: MAX_USAGE_AGE_MS, maxSize: MAX_USAGES },
  });
  const own = (c: C) => c as unknown as Context<E>;
  const nowMsOf = (c: C) => c.get("nowMs") ?? options.runtime.now();

  function setCaller(c: C, caller: Caller<Key, Problem>): void {
    c.set("caller", caller);
    options.onCaller?.(own(c), caller);
  }

  function setOutlook(c: C, outlook: Outlook): void {
    c.set("outlook", outlook);
    options.onOutlook?.(own(c), outlook);
  }

  /**
   * Adds the headers of the rate limit to each response: those of the client's address to one without a decision, such as that of a
   * preflight. Outermost.
   */
  const headers: Middleware = async function headers(c, next) {
    await next();
    const outlook = c.get("outlook");
    if (outlook !== undefined && options.onOutlook !== undefined) return;
    // Without a decision, the request was neither counted nor refused.
    const shown = outlook ?? { ...addresses.peek(clientAddress(c.req), nowMsOf(c)), admitted: true };
    for (const [name, value] of Object.entries(headersOf(shown))) c.header(name, value);
  };

  /** Sets `caller` or `keyRequest`, or both. Asks nobody, and refuses nobody, because a 429 has precedence over a 401. */
  const identify: Middleware = function identify(c, next) {
    const token = bearerToken(c.req.header("Authorization")?.trim());
    const isShort = token !== undefined && token.length <= MAX_TOKEN_LENGTH;
    const credential = isShort ? keys.credentialOf(token) : undefined;
    if (credential === undefined) {
      c.set("caller", { problem: token === undefined ? "missing" : "unknown" });
      return next();
    }
    const arrivedMs = nowMsOf(c);
    c.set("keyRequest", {
      credential,
      arrivedMs,
      timing: c.get("timing"),
      buckets: () => lookupBuckets(c.req),
      onObjectFailure: (error) => options.onObjectFailure?.(own(c), error),
    });
    const caller = keys.peekCaller(credential, arrivedMs);
    if (caller !== undefined) setCaller(c, caller);
    return next();
  };

  /** Counts the request, and sets `outlook`, `caller` and `key`; or has it refused, or rejected. Throws LimiterUnavailable. */
  const admit: Middleware = async function admit(c, next) {
    const decision = await count(c);
    c.get("timing")?.decided(decision.by, decision.by !== "address");
    setOutlook(c, decision);
    if (!decision.admitted) return options.refuse(own(c), decision);
    const { key, problem = "missing" } = c.get("caller") ?? {};
    if (key === undefined) return options.reject(own(c), problem);
    c.set("key", key);
    return next();
  };

  /** Counts the request of a valid key at its object, and any other by its address. */
  async function count(c: C): Promise<Decision> {
    const countAddress = () => addresses.count(clientAddress(c.req), nowMsOf(c));
    const caller = c.get("caller");
    const request = c.get("keyRequest");
    if (request === undefined || (caller !== undefined && caller.key === undefined))
      return caller?.refusal ?? countAddress();
    if (caller !== undefined) return keys.count(request);
    const answer = await keys.askAndCount(request);
    setCaller(c, answer.caller);
    return answer.decision ?? answer.caller.refusal ?? countAddress();
  }

  /**
   * The usage of the caller's key: what is left now, also during a ban, and the totals of its days. Counts nothing, and asks the object at
   * most once in MAX_USAGE_AGE_MS. Undefined if no valid key is known, also because its address has looked up too many unknown ones: go on
   * to `admit`, which answers that. `outlook.admitted` is true, because this request is never refused. Throws LimiterUnavailable.
   */
  async function usage<Own extends E>(context: Context<Own>) {
    const c = context as unknown as C;
    const request = c.get("keyRequest");
    if (request === undefined) return undefined;
    if (c.get("caller") === undefined) setCaller(c, await keys.askCaller(request));
    const key = c.get("caller")?.key;
    if (key === undefined) return undefined;
    const { days, peek } = await usages.get(request.credential.id, request);
    // Of now, because the cached answer may be older than the last response. The headers show a ban, but this request is not refused.
    const outlook = { ...peek(), admitted: true };
    setOutlook(c, outlook);
    return { key, outlook, days };
  }

  /**
   * Whether `admit` will wait for a call that will probably admit the request: of a key that is new to the isolate, which may be made up, or
   * of one that it knows.
   */
  function expectsCall<Own extends E>(context: Context<Own>): "new" | "known" | undefined {
    const c = context as unknown as C;
    const request = c.get("keyRequest");
    const caller = c.get("caller");
    if (request === undefined) return undefined;
    if (caller === undefined) return keys.isNew(request) ? "new" : undefined;
    return caller.key !== undefined && keys.needsCall(request.credential.id) ? "known" : undefined;
  }

  return { headers, identify, admit, usage, expectsCall };
}

/** The token of a bearer credential (RFC 6750, section 2.1; the scheme is case-insensitive, RFC 9110, section 11.1). */
function bearerToken(authorization: string | undefined): string | undefined {
  return authorization?.match(/^bearer +(.+)/i)?.[1];
}
