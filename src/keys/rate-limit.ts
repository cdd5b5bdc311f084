// Enforces the rate limit and sets its headers. A valid key's requests are counted exactly, by its Durable Object; other requests
// are counted by client address, in memory.

import type { Context, MiddlewareHandler } from "hono";
import { clientAddress } from "../http/client-address.ts";
import { errorResponse } from "../http/errors.ts";
import { MESSAGES } from "../http/messages.ts";
import type { AddressCounter } from "../limits/address-counter.ts";
import { availableMs, headersOf, left, secondsToReset, tighterWindow } from "../limits/headers.ts";
import type { Decision, Outlook } from "../limits/windows.ts";
import { type Keys, type KeysEnv, setCaller } from "./identify.ts";

/** Adds the rate-limit headers of the client's address to a response without a decision, such as that of a preflight. */
export function rateLimitHeaders(addresses: AddressCounter): MiddlewareHandler<KeysEnv> {
  return async function rateLimitHeaders(c, next) {
    await next();
    if (c.get("outlook") !== undefined) return;
    const outlook = addresses.peek(clientAddress(c.req), c.get("nowMs"));
    // The request was neither counted nor refused.
    const headers = headersOf({ ...outlook, admitted: true });
    for (const [name, value] of Object.entries(headers)) c.res.headers.set(name, value);
  };
}

/** Counts the request, and sets `outlook` and `caller`. Answers `rate_limit_exceeded` or `key_banned`. */
export function rateLimit(keys: Keys, addresses: AddressCounter): MiddlewareHandler<KeysEnv> {
  return async function rateLimit(c, next) {
    const decision = await count(keys, addresses, c);
    c.get("timing")?.decided(decision.by, decision.by !== "address");
    setOutlook(c, decision);
    if (decision.admitted) return next();
    const { key, refusal } = c.get("caller") ?? {};
    const limited = MESSAGES.rate_limit_exceeded;
    const withoutKey = refusal === undefined ? limited.withoutKey : limited.unknownKeys;
    return refuse(c, decision, key === undefined ? withoutKey : limited.key);
  };
}

/** Counts the request of a valid key at its object, and any other by its address. */
async function count(keys: Keys, addresses: AddressCounter, c: Context<KeysEnv>): Promise<Decision> {
  const countAddress = () => addresses.count(clientAddress(c.req), c.get("nowMs"));
  const caller = c.get("caller");
  const request = c.get("keyRequest");
  if (request === undefined || (caller !== undefined && caller.key === undefined))
    return caller?.refusal ?? countAddress();
  if (caller !== undefined) return keys.count(request);
  const answer = await keys.identifyAndCount(request);
  setCaller(c, answer.caller);
  return answer.decision ?? answer.caller.refusal ?? countAddress();
}

/** Sets `outlook`, its headers and its log fields. */
export function setOutlook(c: Context<KeysEnv>, outlook: Outlook): void {
  c.set("outlook", outlook);
  headersOf(outlook, c.get("headers"));
  const window = tighterWindow(outlook);
  const log = c.get("log");
  log.window = window;
  log.remaining = left(outlook, window);
}

type Exceeded = (typeof MESSAGES.rate_limit_exceeded)["key"];

function refuse(c: Context<KeysEnv>, decision: Decision, exceeded: Exceeded): Response {
  const name = tighterWindow(decision);
  const { limit } = decision.windows[name] ?? decision.windows.minute;
  const retry = { seconds: secondsToReset(decision, name), atMs: availableMs(decision, name) };
  const headers = { "Cache-Control": "no-store" };
  if (decision.bannedUntilMs !== undefined) {
    const message = MESSAGES.key_banned.ban(decision.bannedUntilMs, retry);
    return errorResponse(c, { code: "key_banned", message, headers });
  }
  return errorResponse(c, { code: "rate_limit_exceeded", message: exceeded(limit, name, retry), headers });
}
