// A sliding window counter: how many requests came within the last LEASE_MS, as both an isolate and an object estimate it.
// Approximate: it takes the requests of the period before as evenly spread.

import { LEASE_MS } from "./protocol.ts";

/** Requests in the period that began at `startMs` (Unix time), and in the period before. Periods have LEASE_MS. */
export type Recent = { startMs: number; count: number; before: number };

export const NONE_RECENT: Recent = { startMs: 0, count: 0, before: 0 };

/** Adds requests at `nowMs` (Unix time). After the clock steps back, it begins anew. */
export function addRecent({ startMs, count, before }: Recent, requests: number, nowMs: number): Recent {
  const startOfPeriodMs = nowMs - (nowMs % LEASE_MS);
  if (startMs === startOfPeriodMs) return { startMs, count: count + requests, before };
  const isNext = startMs === startOfPeriodMs - LEASE_MS;
  return { startMs: startOfPeriodMs, count: requests, before: isNext ? count : 0 };
}

/** How many requests came within LEASE_MS before `nowMs` (Unix time). */
export function recentCount(recent: Recent, nowMs: number): number {
  const { startMs, count, before } = addRecent(recent, 0, nowMs);
  return count + before * (1 - (nowMs - startMs) / LEASE_MS);
}
