// The messages between isolates and a key's Durable Object. README.md has the picture and the rules.

import type { ByWindow, Windows } from "./windows.ts";

/** The longest wait for a decision. Longer: more patience with a slow object; shorter: more decisions without it. */
export const MAX_WAIT_MS = 5_000;

/** How long an isolate may use a key since its read. Longer: fewer calls of quiet keys; shorter: a change of a key is in force earlier. */
export const KEY_MS = 30_000;

/** How long an isolate caches the usage of a key, or the failure of its call. Longer: fewer calls; shorter: more recent totals of days. */
export const MAX_USAGE_AGE_MS = 1_000;

export const DAY_MS = 86_400_000;

/** The time over which rates are measured. Longer: leases that fit a steady rate; shorter: leases that fit a burst. */
export const RATE_MS = 4_000;

/** How late a timer may be, and so the report on a lease. Longer: later retries of undecided requests; shorter: more of them in vain. */
export const LATE_MS = 50;

/** Characters in the id of an isolate: 59 bits in base62. */
export const ISOLATE_ID_LENGTH = 10;

/** Requests that an isolate may admit without a call. */
export interface Lease {
  /** The number of the call that was granted it; a renewal keeps it. */
  id: number;
  /** How many requests it has had in all. */
  size: number;
  /** When that was, by the object's clock (Unix time): the lease counts in the windows of that time. */
  grantedMs: number;
  /** From the grant or renewal on. */
  durationMs: number;
}

/** How many requests were admitted, and how many refused, by the window that has refused them: of several full ones the longest. */
export interface Decided {
  admitted: number;
  refusedBy: ByWindow<number>;
}

/** Requests that an isolate has refused by a full window, or has decided because their call had failed or came too late. */
export interface LocalDecision extends Decided {
  /** Of the failed call, or a number of its own that no call has. */
  number: number;
  /** When the first was made, at the earliest, by the object's clock (Unix time). */
  atMs: number;
}

/** A lease of an isolate, with the number of requests that it has used. After `isOver` it uses no more. */
export interface LeaseReport {
  id: number;
  used: number;
  isOver: boolean;
}

/** A batch of requests to count, in their order of arrival; 0 requests if the isolate only reports, or wants a lease or a key. */
export interface AcquireRequest {
  /** The id of the isolate. */
  isolate: string;
  /** Higher than that of all earlier calls and local decisions of the isolate. A retry has the same. */
  number: number;
  requests: number;
  /** Of the last status that the isolate has: the highest that an object of the key has told it. */
  revision: number;
  /** How many requests have arrived in the isolate in RATE_MS, as a moving average. */
  recent: number;
  wantsLease: boolean;
  /** Null if the isolate holds none. Absent if the call says nothing of it: then the object credits nothing. */
  lease?: LeaseReport | null;
  /** What the object has not acknowledged. */
  decisions: readonly LocalDecision[];
  /** If the isolate can't tell whether the secret of one of the requests is valid: its SHA-256. */
  secret?: string;
}

/** `key` is null if the key does not exist. `usableMs`: how long it may be used from the answer on; isolates count from their call. */
export type UsableKey<Key> = { key: Key | null; usableMs: number };

/** How long a call has waited for the object's read of the key; undefined if there was none. */
type Waited = { loadMs?: number };

/** What every answer of the object has. */
export interface KeyAnswer<Key> extends UsableKey<Key>, Waited {
  /** Whether the key was read after the call had arrived, so that a secret that it lacks does not exist. */
  isNew: boolean;
}

/**
 * The object has no key that it may use, because the keys database can't be reached. It is no error, which would lose its class on the way
 * to the isolate.
 */
export type NoKey = Waited & { unavailable: string };

/** Without `result`, nothing was counted: the key does not exist, or the secret is not valid. */
export type AcquireAnswer<Key> = KeyAnswer<Key> & { result?: AcquireResult };
/** Without `usage`, the key does not exist. */
export type UsageAnswer<Key> = KeyAnswer<Key> & { usage?: { status: Status; days: readonly Day[] } };

/** The status of a key at `nowMs`, by the object's clock (Unix time). */
export interface Status {
  revision: number;
  nowMs: number;
  windows: Windows;
  /** How many requests of each window other isolates may give back; of GET /v1/usage, with those of the isolate itself. */
  leased: ByWindow<number>;
  /** Set during a ban (Unix time). */
  bannedUntilMs?: number;
}

/** The first `admitted` requests are admitted, and the last `refused` refused; those between are undecided. */
export interface AcquireResult extends Status {
  admitted: number;
  refused: number;
  /** The isolate's part of the key's recent requests, from 0 to 1: what it admits of the limits while it can't ask the object. */
  share?: number;
  /**
   * If some are neither admitted nor refused: when the next lease or the shortest window ends, or a lease has just ended (Unix time, by the object's
   * clock).
   */
  retryMs?: number;
  /** Set if the call granted or renewed it. */
  lease?: Lease;
}

/**
 * The requests of a key on a UTC day, without those that the object gets during a ban. Times are Unix time, and 0 if there was no such
 * request.
 */
export interface Day {
  /** Such as `2026-11-20`. */
  date: string;
  /** As charged: with what isolates have leased. */
  admitted: number;
  refusedBy: ByWindow<number>;
  /** Of each window that is shorter than a day: the most requests, admitted and refused, in one of the day. A late report may not count. */
  busiest: ByWindow<number>;
  lastAdmittedMs: number;
  lastRefusedMs: number;
}
