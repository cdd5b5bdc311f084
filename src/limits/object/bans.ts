// Bans: which refusals count towards one, when it begins and ends, and how an operator lifts it.

import { MAX_WAIT_MS } from "../protocol.ts";
import { type Quota, revised } from "./quota.ts";

/** How long a ban lasts. It is never extended; only an operator ends it earlier. */
export const BAN_MS = 10 * 60_000;
/** When a ban that begins at `nowMs` ends (both Unix time): a whole second. The next ban ends later, so the end identifies it. */
export const banEndMs = (nowMs: number) => Math.ceil((nowMs + BAN_MS) / 1000) * 1000;
/**
 * Refusals count towards a ban from this long after the first one of their window, the shortest. No request waits for longer than MAX_WAIT_MS, so each
 * of theirs arrived at least 2 s after it. Longer: more load before a ban; shorter: bans of isolates that did not know of the refusal.
 */
export const BAN_GRACE_MS = MAX_WAIT_MS + 2_000;
/** How many such refusals a window tolerates, or this many times its largest limit if that is more. */
export const MIN_TOLERATED_REFUSALS = 180;
export const TOLERATED_LIMITS = 3;

/** How many of these refusals, made at `atMs` in the current window, count towards a ban. */
export function late({ refusals: { firstMs } }: Quota, refused: number, atMs: number): number {
  return firstMs > 0 && atMs >= firstMs + BAN_GRACE_MS ? refused : 0;
}

/** Notes refusals, made at `atMs` in the current window, and begins a ban if too many of its refusals count towards one. */
export function countTowardsBan(quota: Quota, refused: number, atMs: number, nowMs: number): Quota {
  const { refusals, bannedUntilMs } = quota;
  const lateSoFar = refusals.late + late(quota, refused, atMs);
  const tolerated = Math.max(MIN_TOLERATED_REFUSALS, TOLERATED_LIMITS * refusals.maxLimit);
  const isBan = lateSoFar > tolerated && nowMs >= bannedUntilMs;
  return {
    ...quota,
    refusals: { ...refusals, firstMs: refusals.firstMs || nowMs, late: lateSoFar },
    bannedUntilMs: isBan ? banEndMs(nowMs) : bannedUntilMs,
  };
}

/** Ends a ban that ends by `liftedUntilMs`. The refusals that led to it don't count any more. */
export function liftBan(quota: Quota, liftedUntilMs: number): Quota {
  if (quota.bannedUntilMs === 0 || quota.bannedUntilMs > liftedUntilMs) return quota;
  return revised({ ...quota, bannedUntilMs: 0, refusals: { ...quota.refusals, late: 0 } }, 0);
}
