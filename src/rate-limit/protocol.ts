// How the isolates that serve a key and the key's Durable Object count its requests together.
//
//    every isolate: LimiterClient                                  one object per key: RateLimiter
//    waiting requests, held leases, outbox                         windows, ban, leases, recent batches
//
//    acquire  ── a batch of requests, a lease request, a report ─▶  admits what fits, charges a lease,
//             ◀── admitted, refused (the rest is undecided), lease ──  and stores the change
//    release  ── a report: leases that ended, with what is unused ▶  takes that off the windows
//             ◀── the status of the key ──────────────────────────
//
// A lease is *outstanding* until it is released, or until its time and 2 s are over: a release takes no longer unless it fails. A
// request is *undecided* if it does not fit while a lease is outstanding; its isolate asks again after 100 ms.
//
// Invariants, and what breaks with each:
// - The object charges a lease to both windows when it grants it, and an isolate uses it only within its time, which ends before
//   the minute. Otherwise more than the limit is admitted.
// - The object refuses only if no outstanding lease could make room, and no request waits while its isolate holds leased requests.
//   Otherwise a client with requests left is refused.
// - A batch is charged and a release credited once, by their ids, of which the object knows the last 256. Otherwise a retry is
//   charged twice.
// - A change is durable before it is answered (output gate). Otherwise a crash admits the same requests again.
// - Every change raises the revision, and an isolate ignores the status of an older one. Otherwise Remaining goes back.
// - What an isolate holds when it ends stays charged: its leases, and the batch that it has sent. A crash costs no more.

import { type KeyWindows, type Limits, WINDOW_SECONDS } from "./windows.ts";

/** What is counted by one object. */
export interface LimitedKey {
  id: string;
  limits: Limits;
}

/** How long a call may take: ten times a round trip to another continent. */
export const CALL_DEADLINE_MS = 2_000;

export const DAY_MS = WINDOW_SECONDS.day * 1000;
/** Days with totals, today included. */
export const DAYS_KEPT = 30;

/** The longest time of a lease. */
export const LEASE_MS = 800;
/** A lease ends at least this long before its minute: a timer may be late by as much. */
export const LEASE_MARGIN_MS = 5;

/** Characters in the id of a batch: 59 bits in base62. */
export const BATCH_ID_LENGTH = 10;

/** Requests that an isolate may admit without a call. */
export interface Lease {
  /** The id of the batch that it was granted with. */
  id: string;
  size: number;
  /** By the object's clock (Unix time). */
  grantedMs: number;
  durationMs: number;
}

/** Released leases, local admissions and a local ban. Idempotent. */
export interface Report {
  /** Leases that ended, each with how many of its requests were not used. */
  released: readonly { id: string; unused: number }[];
  /** Batches that the isolate decided by itself: how many requests it admitted, and when, by the object's clock (Unix time). */
  outbox: readonly { id: string; requests: number; atMs: number }[];
  /** The end of a ban that the isolate decided by itself (Unix time), or 0. */
  bannedUntilMs: number;
}

/** A batch of requests to be counted, in their order; none if only a lease is wanted. */
export interface AcquireRequest extends Report {
  /** Chosen by the isolate; a retry has the same one. */
  id: string;
  requests: number;
  /** How long the first of them has waited in the isolate. */
  waitedMs: number;
  lease?: Pick<Lease, "size" | "durationMs">;
}

/** A key as of `nowMs`, by the object's clock (Unix time). */
export interface Status {
  revision: number;
  nowMs: number;
  windows: KeyWindows;
  /** Set during a ban (Unix time). */
  bannedUntilMs?: number;
  /** Leases that were not released. They are charged to the windows that they were granted in. */
  leases: readonly Lease[];
}

/** The first `admitted` requests are admitted, the next `refused` refused, the others undecided: ask again, as a new batch. */
export interface AcquireResult extends Status {
  admitted: number;
  refused: number;
  lease?: Lease;
}

/** What a key did on one UTC day. Requests during a ban are in neither number. */
export interface DayTotals {
  /** Unix time. */
  startMs: number;
  admitted: number;
  refused: number;
}
