// The limiter clients of the keys that this isolate has met lately. The oldest client is evicted first, however much its key is used:
// the key is then counted as if it were new here.

import { BoundedMap } from "../../lib/bounded-map.ts";
import { RUNTIME } from "../../lib/runtime.ts";
import type { LimitedKey } from "../protocol.ts";
import { callObject } from "./call-object.ts";
import { LimiterClient, type Limiters, type OnLocal } from "./limiter-client.ts";

export type { Limiters };

/** Together about 5 MB of the 128 that an isolate has; ten times that if all of them have much to report. */
const MAX_CLIENTS = 5_000;

const clients = new BoundedMap<string, LimiterClient>(MAX_CLIENTS);

const clientOf = (keyId: string) => clients.getOrAdd(keyId, () => new LimiterClient(RUNTIME, keyId));

/** Whether this isolate knows that a key is banned. Makes no call. */
export function isBanned({ id, limits }: LimitedKey): boolean {
  return clients.get(id)?.known.peek(limits).bannedUntilMs !== undefined;
}

/** Whether a request of a key will probably be refused, as far as this isolate knows. Makes no call. */
export function isExhausted({ id, limits }: LimitedKey): boolean {
  return clients.get(id)?.known.peek(limits).admitted === false;
}

/** Counts one request of a key, at once if no call is needed. `onLocal` is told if it was decided locally. */
export function countRequest(limiters: Limiters, { id, limits }: LimitedKey, onLocal: OnLocal) {
  return clientOf(id).acquire(limits, limiters, onLocal);
}

/** The usage of a key, without the unused requests of leases that this isolate holds. Throws what the call throws. */
export async function usageOf(limiters: Limiters, { id, limits }: LimitedKey) {
  const call = async () => limiters.getByName(id).usage(limits);
  const { status, pastDays } = await callObject(RUNTIME, "the limiter", call);
  return { decision: clientOf(id).known.apply(limits, status), pastDays };
}
