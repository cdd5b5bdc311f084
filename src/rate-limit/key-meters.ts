// The meters of the keys that this isolate has met lately, and how it reaches their objects: within a deadline, and a second
// time where that can do no harm. Which key is forgotten first is a matter of when it came, not of when it was used: it is
// then counted by its object as if it were new here, and what it had leased comes back.

import { waitUntil } from "cloudflare:workers";
import { BoundedMap } from "../bounded-map.ts";
import { withDeadline } from "../deadline.ts";
import type { Key } from "../keys/store.ts";
import { type AskObject, KeyMeter } from "./key-meter.ts";
import type { Decision } from "./window.ts";

/** Ten times what a call to another continent takes. */
export const LIMITER_DEADLINE_MS = 2_000;

/** Asking once, and once more. */
const MAX_CALL_MS = 2 * LIMITER_DEADLINE_MS;

/** Together about 5 MB of the 128 that an isolate has; ten times that if all of them have much to report. */
const MAX_METERS = 5_000;

const CLOCK = {
  now: () => Date.now(),
  wait: (ms: number) => scheduler.wait(ms),
  keepAlive: (work: Promise<unknown>) => waitUntil(work),
};

const meters = new BoundedMap<string, KeyMeter>(MAX_METERS);

type KeyLimits = Pick<Key, "id" | "limits">;

function meterOf(keyId: string): KeyMeter {
  const known = meters.get(keyId);
  if (known !== undefined) return known;
  const meter = new KeyMeter(CLOCK, MAX_CALL_MS);
  meters.set(keyId, meter);
  return meter;
}

/** The refusal of a key that is known to be banned. Asks nobody. */
export function rememberedBan({ id, limits }: KeyLimits, nowMs: number): Decision | undefined {
  return meters.get(id)?.ban(limits, nowMs);
}

/** Whether a request of a key will probably be refused, from what is known of it here. */
export function seemsUsedUp({ id, limits }: KeyLimits, nowMs: number): boolean {
  return meters.get(id)?.isUsedUp(limits, nowMs) ?? false;
}

/**
 * Counts one request of a key, at once if nobody has to be asked. Its time of arrival, `nowMs` (Unix time), only matters
 * if the isolate must decide alone; then `onUnavailable` is told why.
 */
export function takeFromKey(
  limiters: Env["RATE_LIMITER"],
  { id, limits }: KeyLimits,
  nowMs: number,
  onUnavailable: (error: unknown) => void,
): Decision | Promise<Decision> {
  const ask: AskObject = (take) => askLimiter(limiters, (limiter) => limiter.take(limits, take), id);
  return meterOf(id).take(limits, ask, nowMs, onUnavailable);
}

/** Remembers what the object said of a key, and returns it without what it has leased to this isolate. */
export function remember(keyId: string, decision: Decision): Decision {
  const meter = meterOf(keyId);
  meter.remember(decision);
  return meter.asSeenHere(decision);
}

/**
 * Asks the object of a key, and a second time, with a new stub, if the platform says that this may help; what is asked
 * must be harmless to repeat. Throws what the platform throws, or DeadlineExceeded.
 */
export async function askLimiter<Result>(
  limiters: Env["RATE_LIMITER"],
  ask: (limiter: ReturnType<Env["RATE_LIMITER"]["getByName"]>) => Promise<Result>,
  keyId: string,
): Promise<Result> {
  const askOnce = () =>
    withDeadline("the limiter", LIMITER_DEADLINE_MS, async () => ask(limiters.getByName(keyId)));
  try {
    return await askOnce();
  } catch (error) {
    const { retryable, overloaded } = error as { retryable?: boolean; overloaded?: boolean };
    if (!retryable || overloaded) throw error;
    return askOnce();
  }
}
