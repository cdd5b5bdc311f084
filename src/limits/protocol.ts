// The protocol between isolates and a key's Durable Object, which has the key's record and counts its requests.
//
//    every isolate: KeyState, KeyClient                            one object per key: ApiKey
//    record, waiting requests, a lease, local decisions            record, windows, ban; for each isolate its lease and latest call
//
//    acquire  ── a batch of requests, the recent rate, a report ─▶  applies the report, admits requests, charges a lease,
//             ◀── admitted, refused (the rest is undecided), lease ──  and stores the change, unless what is stored covers it
//    identify ── the hash of a secret ──────────────────────────▶  reads the record again if it has no such secret
//
// Every answer brings the record, unless the object has none. An isolate decides by the limits of its record only, and while the object can be
// reached, that alone admits by them, so isolates can't disagree. An isolate has one call that counts under way. A request is *undecided* if
// leases of other isolates could still make room for it: its isolate asks again after a pause.
//
// RULE      The object charges a lease to both windows when it grants the lease, and the lease ends before its minute does.
// PREVENTS  More admitted requests than the limit.
//
// RULE      What an answer brings to an isolate holds for a duration by the isolate's clock, from before the call.
// PREVENTS  A lease, a ban or a record that an isolate uses after its end at the object.
//
// RULE      The object refuses only requests for which outstanding leases can't make room. A waiting request takes from a lease as soon as its
//           isolate has one.
// PREVENTS  A refusal while requests are left.
//
// RULE      Calls and local decisions are numbered, and the object remembers the latest call of each isolate. It answers a repeated call with the
//           same result, except that a refused request that may fit by now is undecided. A local decision with the number of a call replaces
//           what the call was charged.
// PREVENTS  A request that is charged twice; a refusal that names a new window, which has room.
//
// RULE      The object credits a lease if the next call of its isolate says that the isolate holds another one, or none: the isolate has never
//           received it. A call that says nothing of leases credits nothing.
// PREVENTS  Leased requests that nobody can use.
//
// RULE      Before an answer is sent, what it says is stored or covered by what is stored, and that is durable (output gate).
// PREVENTS  A crash after which the same requests are admitted again.
//
// RULE      Every change raises the revision, and an isolate ignores a status with a lower one. What is stored has a revision above all that it
//           covers.
// PREVENTS  Counts that go back in an isolate, also after a crash.
//
// RULE      A call names the highest revision that its isolate knows, and an object with a lower one goes on from it. If the object has been
//           replaced, what it has stored no longer covers its state. So it stores before it answers, which the platform refuses.
// PREVENTS  A lease that two objects credit.
//
// RULE      An answer says which share of the key's recent requests came from its isolate. Without the object, an isolate admits its share.
// PREVENTS  An outage in which each of several isolates that share a key admits the whole limit.
//
// RULE      A release adds fields, each with a default in messages.ts, or in object/state.ts if it is stored. It removes none that a release
//           reads to which one may roll back. No field changes its meaning, and no method its name.
// PREVENTS  Calls between old and new code that fail, for minutes after a deployment or a rollback (docs/migrations.md).

import { type KeyWindows, WINDOW_SECONDS, type WindowName } from "./windows.ts";

/** The longest wait for a decision. Longer: more patience with a slow object; shorter: more decisions without it. */
export const MAX_WAIT_MS = 5_000;

/** How long an isolate may use a record since its read. Longer: fewer calls of quiet keys; shorter: a change of a key is in force earlier. */
export const RECORD_MS = 30_000;

/** How long an isolate caches the usage of a key, or the failure of its call. Longer: fewer calls; shorter: more recent totals of days. */
export const MAX_USAGE_AGE_MS = 1_000;

export const MINUTE_MS = WINDOW_SECONDS.minute * 1000;
export const DAY_MS = WINDOW_SECONDS.day * 1000;
/** Days with totals, today included. */
export const DAYS_KEPT = 30;

/** The time over which rates are measured. Longer: leases that fit a steady rate; shorter: leases that fit a burst. */
export const RATE_MS = 4_000;

/** How late a timer may be, and so the report on a lease. Longer: later retries of undecided requests; shorter: more of them in vain. */
export const LATE_MS = 50;

/** Characters in the id of an isolate's client: 59 bits in base62. */
export const CLIENT_ID_LENGTH = 10;

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

/** How many requests were admitted, and how many refused; of these, `refusedByDay` by the day's limit, and not the minute's. */
export interface Decided {
  admitted: number;
  refused: number;
  refusedByDay: number;
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

/** A batch of requests to count, in their order of arrival; 0 requests if the isolate only reports, or wants a lease or a record. */
export interface AcquireRequest {
  /** The id of the isolate's client. */
  client: string;
  /** Higher than that of all earlier calls and local decisions of the client. A retry has the same. */
  number: number;
  requests: number;
  /** Of the last status that the isolate has: the highest that an object of the key has told it. */
  revision: number;
  /** How many requests have arrived in the isolate in RATE_MS, as a moving average. */
  recent: number;
  wantsLease: boolean;
  /** Null if the client holds none. Absent if the call says nothing of it: then the object credits nothing. */
  lease?: LeaseReport | null;
  /** What the object has not acknowledged. */
  decisions: readonly LocalDecision[];
  /** If the isolate can't tell whether the secret of one of the requests is valid: its SHA-256. */
  secret?: string;
}

/** `record` is null if the key does not exist. `usableMs`: how long it may be used from the answer on; isolates count from their call. */
export type UsableRecord<Key> = { record: Key | null; usableMs: number };

/** How long a call has waited for the object's read of the record; undefined if there was none. */
type Waited = { recordMs?: number };

/** What every answer of the object has. */
export interface RecordAnswer<Key> extends UsableRecord<Key>, Waited {
  /** Whether the record was read after the call had arrived, so that a secret that it lacks does not exist. */
  isNew: boolean;
}

/**
 * The object has no record that it may use, because the keys database can't be reached. It is no error, which would lose its class on the way
 * to the isolate.
 */
export type NoRecord = Waited & { unavailable: string };

/** Without `result`, nothing was counted: the key does not exist, or the secret is not valid. */
export type AcquireAnswer<Key> = RecordAnswer<Key> & { result?: AcquireResult };
/** Without `usage`, the key does not exist. */
export type UsageAnswer<Key> = RecordAnswer<Key> & { usage?: { status: Status; days: readonly DayTotals[] } };

/** The status of a key at `nowMs`, by the object's clock (Unix time). */
export interface Status {
  revision: number;
  nowMs: number;
  windows: KeyWindows;
  /** How many requests of each window other isolates may give back; of GET /v1/usage, with those of the isolate itself. */
  leased: Record<WindowName, number>;
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
   * If some are neither admitted nor refused: when the next lease or the minute ends, or a lease has just ended (Unix time, by the object's
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
export interface DayTotals {
  startMs: number;
  /** As charged: with what isolates have leased. */
  admitted: number;
  refusedByMinute: number;
  refusedByDay: number;
  /** The most requests, admitted and refused, in one of its minutes. A report that is minutes late does not count. */
  busiestMinute: number;
  lastAdmittedMs: number;
  lastRefusedMs: number;
}
