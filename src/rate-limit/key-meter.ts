// How a Worker has a request of a key counted: by the key's Durable Object, whose last answers are remembered here. The
// memory serves two ends: while a key is banned nobody has to be asked, and while the object can't be reached the isolate
// decides alone, by the same rules, from what it last knew. Deciding alone is lax by nature, because every isolate does
// it by itself; whom it let in, it reports as soon as the object answers again.

import { BoundedMap } from "../bounded-map.ts";
import { withDeadline } from "../deadline.ts";
import { randomBase62 } from "../keys/secret.ts";
import type { Key } from "../keys/store.ts";
import { type Admission, decide, type Meter, standing, TAKE_ID_LENGTH, UNUSED_METER } from "./meter.ts";
import type { Decision, Window } from "./window.ts";

/** Ten times what a call to another continent takes. */
const DEADLINE_MS = 2_000;

/** Together about 4 MB of the 128 that an isolate has; ten times that if all of them have that much to report. */
const MAX_METERS = 5_000;

/** Requests of a key that are reported after an outage. In a longer one, those before them count here only. */
const MAX_UNREPORTED = 100;

interface KnownMeter {
  meter: Meter;
  unreported: Admission[];
}

const knownMeters = new BoundedMap<string, KnownMeter>(MAX_METERS);

/** The refusal of a key that is known to be banned. Asks nobody. */
export function rememberedBan(
  { id, limits }: Pick<Key, "id" | "limits">,
  nowMs: number,
): Decision | undefined {
  const known = knownMeters.get(id);
  const decision = known && standing(known.meter, limits, nowMs);
  return decision?.bannedUntilMs === undefined ? undefined : decision;
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
  const ban = rememberedBan(key, nowMs);
  if (ban !== undefined) return ban;

  const take = { id: randomBase62(TAKE_ID_LENGTH), unreported: handOver(key.id) };
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
  const askOnce = () => withDeadline("the limiter", DEADLINE_MS, async () => ask(limiters.getByName(keyId)));
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
  const { meter, unreported } = knownMeters.get(keyId) ?? { meter: UNUSED_METER, unreported: [] };
  const latest = windows.map((window, index) => later(meter.windows[index] ?? window, window));
  knownMeters.set(keyId, { meter: { windows: latest, bannedUntilMs, recentTakes: "" }, unreported });
}

/** The requests that are still to be reported. Each is handed over once, so that two takes do not both report it. */
function handOver(keyId: string): Admission[] {
  const known = knownMeters.get(keyId);
  if (known === undefined || known.unreported.length === 0) return [];
  knownMeters.set(keyId, { ...known, unreported: [] });
  return known.unreported;
}

/** What the object would decide if it knew what is known here, and neither more nor less. */
function decideAlone(
  { id: keyId, limits }: Key,
  { id, unreported: notReported }: { id: string; unreported: Admission[] },
  nowMs: number,
): Decision {
  const known = knownMeters.get(keyId) ?? { meter: UNUSED_METER, unreported: [] };
  const { decision, meter } = decide(known.meter, limits, { id, unreported: [] }, nowMs);
  const admission = decision.admitted ? [{ id, atMs: nowMs }] : [];
  const unreported = [...notReported, ...known.unreported, ...admission].slice(-MAX_UNREPORTED);
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
