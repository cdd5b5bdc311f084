// The lease of one key that an isolate holds. Its time runs from before the call that granted it, by the isolate's clock, so it
// ends before the object's time for it does, whatever the difference of the clocks. A timer ends it too, because timers don't
// step. All times here but `grantedMs` are the isolate's (Unix time).

import { type AcquireRequest, LEASE_MS, type Lease } from "../protocol.ts";

/** A lease is renewed before its end: by the time of 1½ calls and a reserve. */
const RENEW_CALLS = 1.5;
const RENEW_RESERVE_MS = 50;
/** Without a timer, requests renew a lease earlier, by this share of its time. */
const UNTIMED_SHARE = 1 / 4;
/** A lease is also renewed if less than this share of its requests is left: then the rate has risen. */
const LEAST_SHARE = 1 / 4;
/** A lease is in use if a request came within this share of its time. More: leases that nobody needs; less: waits for new ones. */
const IN_USE_SHARE = 1 / 2;

/**
 * It is to be renewed from `renewMs` on, or if fewer than `least` requests are left. If it `isOver`, it is kept until the object has
 * acknowledged that. `isLast`: a call has not renewed it, so another would only delay the report of its end.
 */
export type TimedLease = Lease & { used: number; least: number } & Record<
    "sinceMs" | "renewMs" | "untilMs",
    number
  > &
  Record<"isOver" | "isLast", boolean>;

export class HeldLease {
  #held: TimedLease | undefined;
  /** Of the latest request: its time, and the moving average then. */
  #arrivedMs = 0;
  #recent = 0;

  recordArrival(nowMs: number): void {
    this.#recent = 1 + this.recent(nowMs);
    this.#arrivedMs = nowMs;
  }

  /** How many requests came within LEASE_MS: an exponential moving average. */
  recent(nowMs: number): number {
    return this.#recent * Math.exp(-Math.abs(nowMs - this.#arrivedMs) / LEASE_MS);
  }

  /** Whether the lease has a request left. Its time may be over. */
  get isUsable(): boolean {
    return this.#held !== undefined && !this.#held.isOver && this.#held.used < this.#held.size;
  }

  /** Consumes one leased request, if there is one. `minuteMs`: the start of the minute, by the object's clock (Unix time). */
  consume(nowMs: number, minuteMs: number): boolean {
    const held = this.#held;
    if (held === undefined || !this.isUsable) return false;
    // After this clock steps back, the lease's age is unknown; after the object's steps forward, the lease's minute is over.
    held.isOver = nowMs < held.sinceMs || nowMs >= held.untilMs || held.grantedMs < minuteMs;
    if (!held.isOver) held.used += 1;
    return !held.isOver;
  }

  /** Whether a request renews the lease. `hasTimer`: a timer renews it too. */
  isDue(nowMs: number, hasTimer: boolean): boolean {
    if (this.#held === undefined || this.#held.isOver || this.#held.isLast) return false;
    const { used, size, least, renewMs, durationMs } = this.#held;
    return size - used < least || nowMs >= renewMs - (hasTimer ? 0 : durationMs * UNTIMED_SHARE);
  }

  /** Whether a timer renews the lease: requests still come. */
  isInUse(lease: TimedLease, nowMs: number): boolean {
    const isHeld = lease === this.#held && !lease.isOver && nowMs < lease.untilMs;
    return isHeld && !lease.isLast && nowMs - this.#arrivedMs < lease.durationMs * IN_USE_SHARE;
  }

  /** What the object is told about the lease. A used one is over, so the next is a new one. */
  get report(): AcquireRequest["lease"] {
    const held = this.#held;
    return held && { id: held.id, used: held.used, isOver: held.isOver || held.used === held.size };
  }

  /** Whether the object has to learn that the lease is over. */
  get isEnded(): boolean {
    return this.#held?.isOver === true;
  }

  /** How many charged requests of a window that began at `startMs` (Unix time, by the object's clock) are unused. */
  unused(startMs: number): number {
    if (this.#held === undefined || this.#held.grantedMs < startMs) return 0;
    return this.#held.size - this.#held.used;
  }

  /** Applies the result of the call that was sent at `sentMs` with this report. Returns the lease, if one was granted or renewed. */
  apply(reported: AcquireRequest["lease"], lease: Lease | undefined, sentMs: number, nowMs: number) {
    if (reported?.isOver) this.#held = undefined;
    if (this.#held !== undefined) this.#held.isLast = true;
    // If the clock has stepped back, the lease's age is unknown. The next call does not name it, and the object takes it back.
    if (lease === undefined || nowMs < sentMs) return undefined;
    const untilMs = sentMs + lease.durationMs;
    const renewMs = untilMs - RENEW_RESERVE_MS - RENEW_CALLS * (nowMs - sentMs);
    // The object may have forgotten the lease that this isolate holds, and granted a new one.
    const used = this.#held?.id === lease.id ? this.#held.used : 0;
    const least = (lease.size - used) * LEAST_SHARE;
    this.#held = { ...lease, used, least, sinceMs: sentMs, renewMs, untilMs, isOver: false, isLast: false };
    return this.#held;
  }

  /** Ends a lease that was not renewed, by a timer. Returns whether that ended it. */
  end(lease: TimedLease): boolean {
    lease.isOver = true;
    return lease === this.#held;
  }
}
