// How a Worker has a request of a key counted: by the key's Durable Object, whose last answers are remembered here. The
// memory serves two ends: while a key is banned nobody has to be asked, and while the object can't be reached the isolate
// decides alone, by the same rules, from what it last knew. Deciding alone is lax by nature, because every isolate does
// it by itself; whom it let in, it reports as soon as the object answers again.

import { randomBase62 } from "../base62.ts";
import { BoundedMap } from "../bounded-map.ts";
import { withDeadline } from "../deadline.ts";
import type { Key } from "../keys/store.ts";
import {
  type Admission,
  decide,
  MAX_UNREPORTED,
  type Meter,
  standing,
  TAKE_ID_LENGTH,
  type Take,
  UNUSED_METER,
} from "./meter.ts";
import { type Decision, unusedWindow, type Window } from "./window.ts";

/** Ten times what a call to another continent takes. */
export const LIMITER_DEADLINE_MS = 2_000;

/** Together about 4 MB of the 128 that an isolate has; ten times that if all of them have that much to report. */
const MAX_METERS = 5_000;

interface KnownMeter {
  meter: Meter;
  unreported: Admission[];
}

const knownMeters = new BoundedMap<string, KnownMeter>(MAX_METERS);

const UNKNOWN_METER: KnownMeter = { meter: UNUSED_METER, unreported: [] };

/** The refusal of a key that is known to be banned. Asks nobody. */
export function rememberedBan(
  { id, limits }: Pick<Key, "id" | "limits">,
  nowMs: number,
): Decision | undefined {
  const { meter } = knownMeters.get(id) ?? UNKNOWN_METER;
  return nowMs < meter.bannedUntilMs ? standing(meter, limits, nowMs) : undefined;
}

/**
 * Counts one request of a key as of `nowMs` (Unix time), which only matters if the isolate must decide alone; then
 * `onUnavailable` is told why.
 */
export async function takeFromKey(
  limiters: Env["RATE_LIMITER"],
  key: Key,
  nowMs: number,
  onUnavailable: (error: unknown) => void,
): Promise<Decision> {
  const { meter, unreported } = knownMeters.get(key.id) ?? UNKNOWN_METER;
  const ban = rememberedBan(key, nowMs);
  // What the object has not heard yet it should hear even so.
  if (ban !== undefined && unreported.length === 0) return ban;

  const take = { id: randomBase62(TAKE_ID_LENGTH), unreported, bannedUntilMs: meter.bannedUntilMs };
  // Each request is handed over once, so that two takes do not both report it.
  if (unreported.length > 0) knownMeters.set(key.id, { meter, unreported: [] });
  try {
    const decision = await askLimiter(limiters, (limiter) => limiter.take(key.limits, take), key.id);
    remember(key.id, decision);
    return decision;
  } catch (error) {
    onUnavailable(error);
    return decideAlone(key, take, nowMs);
  }
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

/** Remembers what the object answered, unless more is known: answers can overtake each other. */
export function remember(keyId: string, { windows, bannedUntilMs = 0 }: Decision): void {
  const { meter, unreported } = knownMeters.get(keyId) ?? UNKNOWN_METER;
  const latest = {
    windows: windows.map((window, index) => {
      // An object of an earlier version says nothing of refusals.
      const complete = { ...unusedWindow(window.name, window.limit), ...window };
      return later(meter.windows[index] ?? complete, complete);
    }),
    bannedUntilMs: Math.max(meter.bannedUntilMs, bannedUntilMs),
    recentTakes: "",
  };
  knownMeters.set(keyId, { meter: latest, unreported });
}

/** What the object would decide if it knew what is known here, and neither more nor less. */
function decideAlone({ id: keyId, limits }: Key, take: Take, nowMs: number): Decision {
  const known = knownMeters.get(keyId) ?? UNKNOWN_METER;
  const { decision, meter } = decide(known.meter, limits, { ...take, unreported: [] }, nowMs);
  const admission = decision.admitted ? [{ id: take.id, atMs: nowMs }] : [];
  const unreported = [...take.unreported, ...known.unreported, ...admission].slice(-MAX_UNREPORTED);
  knownMeters.set(keyId, { meter, unreported });
  return decision;
}

/** Of two states of one window, the one that has happened later. */
function later(one: Window, other: Window): Window {
  if (one.startMs !== other.startMs) return one.startMs > other.startMs ? one : other;
  return {
    ...other,
    used: Math.max(one.used, other.used),
    refused: Math.max(one.refused, other.refused),
  };
}
