// Each isolate's share: its part of the key's recent requests. If isolates can't ask the object, each admits its share of what is left.

import type { Quota } from "./quota.ts";

/**
 * The time over which requests are counted. Longer: shares that fit rare requests; shorter: shares that follow the traffic. Not longer than the
 * object remembers an isolate.
 */
const SHARE_MS = 60_000;

/** How many requests an isolate had reported lately, by `nowMs`. */
export function latelyAt(isolate: { lately: number; seenMs: number }, nowMs: number): number {
  return isolate.lately * Math.exp(-Math.abs(nowMs - isolate.seenMs) / SHARE_MS);
}

/**
 * The share of the isolate with this id, whose call has just reported so many requests: a number from 0 to 1. Isolates call when they have
 * requests, so half of those are left out: with all of them the shares of many isolates would add up to more than 1, and without them to less.
 */
export function shareOf({ isolates }: Quota, id: string, reported: number, nowMs: number): number {
  let all = 0;
  for (const each of isolates.values()) all += latelyAt(each, nowMs);
  const isolate = isolates.get(id);
  const own = isolate === undefined ? 0 : latelyAt(isolate, nowMs) - reported / 2;
  const others = all - own - reported / 2;
  return own + others > 0 ? own / (own + others) : 1;
}
