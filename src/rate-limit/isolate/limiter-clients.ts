// The isolate's limiter clients, one for each key. The oldest client is evicted first, however much its key is used: for this
// isolate the key is then new. Timers still report its lease and its decisions, unless an outage lasts longer than they do.

import { BoundedMap } from "../../lib/bounded-map.ts";
import { RUNTIME } from "../../lib/runtime.ts";
import { type LimitedKey, MAX_WAIT_MS } from "../protocol.ts";
import { callObject } from "./call-object.ts";
import { LimiterClient, type Limiters, type OnLocal } from "./limiter-client.ts";

/** Together about 5 MB of the 128 that an isolate has; ten times that if all of them have much to report. */
const MAX_CLIENTS = 5_000;

const clients = new BoundedMap<string, LimiterClient>(MAX_CLIENTS);

function clientOf({ id, bansLiftedUntilMs }: LimitedKey): LimiterClient {
  const client = clients.getOrAdd(id, () => new LimiterClient(RUNTIME, id));
  client.known.liftBans(bansLiftedUntilMs);
  return client;
}

/** Whether a key's next request will probably be refused, as far as this isolate knows. Makes no call. */
export function isExhausted({ id, limits }: LimitedKey): boolean {
  return clients.get(id)?.known.peek(limits).admitted === false;
}

/** See LimiterClient.acquire. */
export function countRequest(limiters: Limiters, key: LimitedKey, onLocal: OnLocal) {
  return clientOf(key).acquire(key.limits, limiters, onLocal);
}

/** Asks the object for a key's usage: the totals of days, and a function for the windows of now. Throws what the call throws. */
export async function usageOf(limiters: Limiters, { id, limits, ...key }: LimitedKey) {
  const client = clientOf({ id, limits, ...key });
  const sentMs = RUNTIME.now();
  const usage = async () => limiters.getByName(id).usage(limits);
  const { status, pastDays } = await callObject(RUNTIME, MAX_WAIT_MS, usage);
  client.learn(status, sentMs);
  const { startMs, used, refused } = status.windows.day;
  const days = [...pastDays, { startMs, admitted: used, refused }];
  return { days, decide: (now: LimitedKey) => client.known.peek(now.limits) };
}
