// What a key's object stores, and when. A slow key is stored with every request, exactly. Of a fast one some requests more
// are stored than there were, and nothing again until they are used up: most requests then write nothing.
//
// What is stored is never less than what was let in, so a crash gives nobody more than the limit. It burns at most what
// was stored ahead; of one window, all crashes and evictions together burn at most a twentieth. What was given back is
// stored before anybody can use it, so it is not given back once more after a crash. Refusals are stored as they come: whoever
// is refused often is banned before long. The ids of takes may be forgotten: then a repeated one counts twice.

import type { Meter, Take } from "./meter.ts";
import { type Limits, remaining, type Window } from "./window.ts";

export const RESERVATIONS_ENABLED: boolean = true;

/** A key that was stored less than this ago is fast. One request a second, or a little sooner, is slow. */
const QUICK_MS = 900;

/** One in so many requests of a window may be burnt. */
const BURN_SHARE = 20;

/** What was stored last: of each window that many more than were used, and how many were burnt before. */
export interface Reservation {
  /** As stored: `ahead` is in its `used`. */
  meter: Meter;
  ahead: number;
  /** Minute and day, in this order. */
  burnt: readonly number[];
  /** When (Unix time); undefined if that was in an earlier life of the object. */
  atMs?: number;
}

/** The reservation of an object that begins anew: what was stored ahead is burnt. */
export function burn({ meter, ahead, burnt }: Reservation): Reservation {
  return { meter, ahead: 0, burnt: burnt.map((before) => before + ahead) };
}

/** Whether `meter`, as it is after a take, has to be stored before anybody learns what was decided. */
export function mustStore(meter: Meter, stored: Reservation, take: Take, nowMs: number): boolean {
  if (!isFast(stored, take, nowMs)) return true;
  const { windows, leases, bannedUntilMs } = stored.meter;
  const isCovered = ({ startMs, used, refused }: Window, index: number) => {
    const before = windows[index];
    return startMs === before?.startMs && used <= before.used && refused === before.refused;
  };
  const gaveBack = take.unused?.some(({ id }) => leases.some((lease) => lease.id === id)) ?? false;
  return gaveBack || meter.bannedUntilMs !== bannedUntilMs || !meter.windows.every(isCovered);
}

/** Whether the totals of `meter` are stored as they are: not more used. */
export function isExact(meter: Meter, stored: Reservation): boolean {
  return meter.windows.every(({ used }, index) => used === stored.meter.windows[index]?.used);
}

/** What to store: more ahead the faster the key is, and not more than may be burnt or than there is left. */
export function reserve(
  meter: Meter,
  limits: Limits,
  stored: Reservation,
  take: Take,
  nowMs: number,
): Reservation {
  const burnt = meter.windows.map(({ startMs }, index) =>
    startMs === stored.meter.windows[index]?.startMs ? (stored.burnt[index] ?? 0) : 0,
  );
  const bounds = meter.windows.flatMap((window, index) => [
    Math.floor(limits[window.name] / BURN_SHARE) - (burnt[index] ?? 0),
    remaining({ ...window, limit: limits[window.name] }),
  ]);
  const ahead = isFast(stored, take, nowMs) ? Math.max(0, Math.min(2 * stored.ahead + 1, ...bounds)) : 0;
  const windows = meter.windows.map((window) => ({ ...window, used: window.used + ahead }));
  return { meter: { ...meter, windows }, ahead, burnt, atMs: nowMs };
}

/** A take for no request, which asks for no lease, ends a burst: who comes next may come in a life of the object to come. */
function isFast({ atMs }: Reservation, { requests, wish }: Take, nowMs: number): boolean {
  const isQuick = atMs !== undefined && atMs <= nowMs && nowMs - atMs < QUICK_MS;
  const endsBurst = requests === 0 && !wish?.size;
  return RESERVATIONS_ENABLED && isQuick && !endsBurst;
}
