// The limiter clients of the keys that this isolate has met lately. The key that came first is forgotten first, however much it is
// used: it is then counted by its object as if it were new here.

import { BoundedMap } from "../../lib/bounded-map.ts";
import { RUNTIME } from "../../lib/runtime.ts";
import type { KeyDecision, Limits } from "../windows.ts";
import { callObject } from "./call-object.ts";
import { LimiterClient, type Limiters, type OnLocal } from "./limiter-client.ts";

/** Together about 5 MB of the 128 that an isolate has; ten times that if all of them have much to report. */
const MAX_CLIENTS = 5_000;

const clients = new BoundedMap<string, LimiterClient>(MAX_CLIENTS);

type LimitedKey = { id: string; limits: Limits };

const clientOf = (keyId: string) => clients.getOrAdd(keyId, () => new LimiterClient(RUNTIME, keyId));

/** The refusal of a key that is known to be banned. Makes no call. */
export function rememberedBan({ id, limits }: LimitedKey): KeyDecision | undefined {
  const known = clients.get(id)?.peek(limits);
  return known?.bannedUntilMs === undefined ? undefined : known;
}

/** Whether a request of a key will probably be refused, from what is known of it here. */
export function isExhausted({ id, limits }: LimitedKey): boolean {
  return clients.get(id)?.peek(limits).admitted === false;
}

/** Counts one request of a key, at once if no call is needed. `onLocal` is told if it was decided locally. */
export function countRequest(limiters: Limiters, { id, limits }: LimitedKey, onLocal: OnLocal) {
  return clientOf(id).acquire(limits, limiters, onLocal);
}

/** The usage of a key, as its object knows it, without what this isolate holds and has not used. Throws what the call throws. */
export async function usageOf(limiters: Limiters, { id, limits }: LimitedKey) {
  const call = async () => limiters.getByName(id).usage(limits);
  const { status, pastDays } = await callObject(RUNTIME, "the limiter", call);
  return { decision: clientOf(id).apply(status), pastDays };
}
