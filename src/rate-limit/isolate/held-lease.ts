// The lease of one key that an isolate holds. Its time runs from before the call that granted it, by the isolate's clock, so it
// ends before the object's time for it does, whatever the difference of the clocks. A timer ends it too, because timers don't
// step. All times here are the isolate's (Unix time).

import { type AcquireRequest, type AcquireResult, LEASE_MS, type Lease } from "../protocol.ts";
import { addRecent, NONE_RECENT, recentCount } from "../recent.ts";

/** A lease is renewed before its end: by the time of 1½ calls and a reserve. */
const RENEW_CALLS = 1.5;
const RENEW_RESERVE_MS = 50;
/** A lease is in use if a request came within this share of its time. More: leases that nobody needs; less: waits for new ones. */
const IN_USE_SHARE = 1 / 2;
/** Without a timer, requests renew a lease in this share of its time. */
const UNTIMED_SHARE = 1 / 4;

/** `grantedMs` is by the object's clock. `isLast`: a call has not renewed it, so another would only delay the report of its end. */
type Held = Lease & {
  used: number;
  grantedMs: number;
  sinceMs: number;
  untilMs: number;
  renewMs: number;
  isLast: boolean;
};

export class HeldLease {
  #recent = NONE_RECENT;
  /** The latest request. */
  #arrivedMs = 0;
  #held: Held | undefined;
  /** Whether no more of it is used. It is kept until the object has acknowledged that. */
  #isOver = false;
  /** How long the last call took. */
  #callMs = 0;

  recordArrival(nowMs: number): void {
    this.#arrivedMs = nowMs;
    this.#recent = addRecent(this.#recent, 1, nowMs);
  }

  /** How many requests came within the last LEASE_MS. */
  recent(nowMs: number): number {
    return recentCount(this.#recent, nowMs);
  }

  /** Consumes one leased request, if there is one. `minuteMs`: the start of the minute, by the object's clock (Unix time). */
  consume(nowMs: number, minuteMs: number): boolean {
    const held = this.#held;
    if (held === undefined || this.#isOver || held.used === held.size) return false;
    // After this clock steps back, the lease's age is unknown; after the object's steps forward, the lease's minute is over.
    if (nowMs < held.sinceMs || nowMs >= held.untilMs || held.grantedMs < minuteMs) {
      this.#isOver = true;
      return false;
    }
    held.used += 1;
    return true;
  }

  /** Whether a request renews the lease: its time comes to an end, or its rest is for less than a call. `hasTimer`: a timer renews it too. */
  isDue(nowMs: number, hasTimer: boolean): boolean {
    if (this.#held === undefined || this.#isOver || this.#held.isLast) return false;
    const { size, used, renewMs, untilMs, durationMs } = this.#held;
    if (nowMs >= (hasTimer ? renewMs : untilMs - durationMs * UNTIMED_SHARE)) return true;
    return size - used <= (recentCount(this.#recent, nowMs) * RENEW_CALLS * this.#callMs) / LEASE_MS;
  }

  /** Whether a timer renews the lease: requests still come. */
  isInUse(lease: Held, nowMs: number): boolean {
    const isGood = lease === this.#held && !this.#isOver && !lease.isLast && nowMs < lease.untilMs;
    return isGood && nowMs - this.#arrivedMs < lease.durationMs * IN_USE_SHARE;
  }

  /** What the object is told about the lease. A used one is over, so the next is a new one. */
  get report(): AcquireRequest["lease"] {
    const held = this.#held;
    return held && { id: held.id, used: held.used, isOver: this.#isOver || held.used === held.size };
  }

  /** Whether the object has to learn that the lease is over. */
  get isEnded(): boolean {
    return this.#held !== undefined && this.#isOver;
  }

  /** How many charged requests of a window that began at `startMs` (Unix time, by the object's clock) are unused. */
  unused(startMs: number): number {
    if (this.#held === undefined || this.#held.grantedMs < startMs) return 0;
    return this.#held.size - this.#held.used;
  }

  /** Applies the result of the call that was sent at `sentMs` with this report. Returns the lease, if one was granted or renewed. */
  apply(
    reported: AcquireRequest["lease"],
    { lease, nowMs: grantedMs, windows }: AcquireResult,
    sentMs: number,
    nowMs: number,
  ) {
    this.#callMs = Math.max(0, nowMs - sentMs);
    if (reported?.isOver) this.#held = undefined;
    if (this.#held !== undefined) this.#held.isLast = true;
    // If the clock has stepped back, the lease's age is unknown. The next call does not name it, and the object takes it back.
    if (lease === undefined || nowMs < sentMs) return undefined;
    const untilMs = sentMs + lease.durationMs;
    const renewMs = untilMs - RENEW_RESERVE_MS - RENEW_CALLS * this.#callMs;
    const known = this.#held ?? { used: 0, grantedMs: Math.max(grantedMs, windows.minute.startMs) };
    this.#held = { ...known, ...lease, sinceMs: sentMs, untilMs, renewMs, isLast: false };
    this.#isOver = false;
    return this.#held;
  }

  /** Ends a lease that was not renewed, by a timer. Returns whether that ended it. */
  end(lease: Held): boolean {
    if (lease !== this.#held) return false;
    this.#isOver = true;
    return true;
  }
}
