// The protocol by which isolates and a key's Durable Object count the key's requests.
//
//    every isolate: LimiterClient                                  one object per key: RateLimiter
//    waiting requests, held leases, outbox                         windows, ban, leases, recent batches
//
//    acquire  ── a batch of requests, a lease request, a report ─▶  admits requests, charges a lease,
//             ◀── admitted, refused (the rest is undecided), lease ──  and stores the change
//    release  ── a report: ended leases, their unused requests ──▶  credits the unused requests
//             ◀── the status of the key ──────────────────────────
//
// A lease is *outstanding* until it is released, or until 2 s after its time: a release takes no longer unless it fails. A request
// is *undecided* if it does not fit while a lease is outstanding; its isolate asks again after 100 ms.
//
// Invariants, each with the fault it prevents:
// - The object charges a lease to both windows when it grants it, and an isolate uses it only within its time, which ends before
//   the minute does. Otherwise more than the limit is admitted.
// - The object refuses only if no outstanding lease could make room, and no request waits in an isolate that holds leased requests.
//   Otherwise a client with requests left is refused.
// - The object charges a batch and credits a release once: it deduplicates the last 256 ids. Otherwise a retry is charged twice.
// - A change is durable before its response is sent (output gate). Otherwise a crash admits the same requests again.
// - Every change raises the revision, and an isolate ignores the status of an older one. Otherwise Remaining goes back.
// - When an isolate ends, its leases and the batch that it has sent stay charged. A crash costs no more.

import { type KeyWindows, type Limits, WINDOW_SECONDS } from "./windows.ts";

/** A key, as its object counts it. An operator has lifted the bans that end by `bansLiftedUntilMs` (Unix time, or 0). */
export type LimitedKey = { id: string; limits: Limits; bansLiftedUntilMs: number };

/** The deadline of a call: ten times a round trip to another continent. */
export const CALL_DEADLINE_MS = 2_000;

export const DAY_MS = WINDOW_SECONDS.day * 1000;
/** Days with totals, today included. */
export const DAYS_KEPT = 30;

/** The longest lease. */
export const LEASE_MS = 800;
/** A lease ends at least this long before its minute, because a timer may be late by as much. */
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

/** Released leases, local admissions, a local ban and lifted bans. Idempotent. */
export interface Report {
  /** Ended leases, each with the number of its unused requests. */
  released: readonly { id: string; unused: number }[];
  /** Batches that the isolate decided locally: how many requests it admitted, and when, by the object's clock (Unix time). */
  outbox: readonly { id: string; requests: number; atMs: number }[];
  /** The end of a ban that the isolate decided locally (Unix time), or 0. */
  bannedUntilMs: number;
  /** See LimitedKey. */
  bansLiftedUntilMs: number;
}

/** A batch of requests to count, in their order of arrival; 0 requests if the isolate only wants a lease. */
export interface AcquireRequest extends Report {
  /** Chosen by the isolate; a retry has the same id. */
  id: string;
  requests: number;
  /** How long the first request has waited in the isolate. */
  waitedMs: number;
  lease?: Pick<Lease, "size" | "durationMs">;
}

/** The status of a key at `nowMs`, by the object's clock (Unix time). */
export interface Status {
  revision: number;
  nowMs: number;
  windows: KeyWindows;
  /** Set during a ban (Unix time). */
  bannedUntilMs?: number;
  /** Leases that were not released. They are charged to the windows in which they were granted. */
  leases: readonly Lease[];
}

/** The first `admitted` requests are admitted, the next `refused` are refused, the others are undecided. */
export interface AcquireResult extends Status {
  admitted: number;
  refused: number;
  lease?: Lease;
}

/** The requests of a key on the UTC day that began at `startMs` (Unix time). Requests during a ban are not counted. */
export type DayTotals = { startMs: number; admitted: number; refused: number };
