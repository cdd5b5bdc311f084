// Bans: which refusals count towards one, when it begins and ends, and how an operator lifts it.

import { type Quota, revised } from "./quota.ts";

/** How long a ban lasts. It is never extended; only an operator ends it earlier. */
export const BAN_MS = 10 * 60_000;
/** When a ban that begins at `nowMs` ends (both Unix time): a whole second. A later ban ends later, so the end identifies it. */
export const banEndMs = (nowMs: number) => Math.ceil((nowMs + BAN_MS) / 1000) * 1000;
/** A refusal counts towards a ban if its request arrived this long after the first refusal of its minute. */
export const BAN_GRACE_MS = 2_000;
/** How many such refusals a minute tolerates, or this many times its largest limit if that is more. */
export const MIN_TOLERATED_REFUSALS = 180;
export const TOLERATED_LIMITS = 3;

/** Whether the refusal of a request that arrived at `arrivedMs` counts towards a ban (all Unix time; `firstMs` 0 if none). */
export function isLate(firstMs: number, arrivedMs: number): boolean {
  return firstMs > 0 && arrivedMs > firstMs + BAN_GRACE_MS;
}

/** Counts late refusals, and begins a ban if there are too many. The minute's first refusal, late or not, sets `firstMs`. */
export function countTowardsBan(quota: Quota, lateRefusals: number, nowMs: number): Quota {
  const { refusals, bannedUntilMs } = quota;
  const late = refusals.late + lateRefusals;
  const tolerated = Math.max(MIN_TOLERATED_REFUSALS, TOLERATED_LIMITS * refusals.maxLimit);
  const isBan = late > tolerated && nowMs >= bannedUntilMs;
  return {
    ...quota,
    refusals: { ...refusals, firstMs: refusals.firstMs || nowMs, late },
    bannedUntilMs: isBan ? banEndMs(nowMs) : bannedUntilMs,
  };
}

/** Ends a ban that ends by `liftedUntilMs`. The refusals that led to it don't count any more. */
export function liftBan(quota: Quota, liftedUntilMs: number): Quota {
  if (quota.bannedUntilMs === 0 || quota.bannedUntilMs > liftedUntilMs) return quota;
  return revised({ ...quota, bannedUntilMs: 0, refusals: { ...quota.refusals, late: 0 } }, 0);
}
