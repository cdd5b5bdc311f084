// The isolate's limiter clients, one for each key. The oldest client is evicted first, however much its key is used: for this
// isolate the key is then new.

import { BoundedMap } from "../../lib/bounded-map.ts";
import { RUNTIME } from "../../lib/runtime.ts";
import type { LimitedKey } from "../protocol.ts";
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

/** The usage of a key, without the unused requests of this isolate's leases. Throws what the call throws. */
export async function usageOf(limiters: Limiters, key: LimitedKey) {
  const { id, limits } = key;
  const { status, pastDays } = await callObject(RUNTIME, async () => limiters.getByName(id).usage(limits));
  return { decision: clientOf(key).known.apply(limits, status), pastDays };
}
