// The leases of one key that an isolate holds, and those that it has to release. A lease counts from before the isolate asked for
// it, by its own clock, so that it ends before the object's time for it does, however far the two clocks are apart. A timer
// ends it as well, because a timer does not step. All times here are of the isolate's clock (Unix time).

import { type AcquireRequest, LEASE_MARGIN_MS, LEASE_MS, type Lease, type Report } from "../protocol.ts";
import { WINDOW_SECONDS } from "../windows.ts";

/** A lease is asked for when requests have come for this long without a gap. */
const STREAK_MS = 50;
const MAX_GAP_MS = 400;
/** The first lease, when no rate is known. */
const FIRST_SIZE = 4;
const FIRST_LEASE_MS = 200;
/** Later ones are for the rate since the last, and half as much again. Less time than this says nothing of a rate. */
const HEADROOM = 1.5;
const MIN_SAMPLE_MS = 50;
/** A lease is renewed so long before its end, besides the time of 1½ calls. */
const RENEW_MS = 100;
const RENEW_CALLS = 1.5;
/** In an outage longer than this list, what is left of further leases stays charged. */
const MAX_ENDED = 100;
const MINUTE_MS = WINDOW_SECONDS.minute * 1000;

type HeldLease = Lease & { left: number; requestedMs: number; renewMs: number };

export class HeldLeases {
  /** Oldest first; it is used up first. */
  #held: readonly HeldLease[] = [];
  /** What was left of leases that ended, until the object has acknowledged it. */
  ended: Report["released"] = [];
  /** The lease that was requested last (no id once it has come), and the requests since then. */
  #latest = { id: "", requestedMs: Number.NEGATIVE_INFINITY, requests: 0 };
  #streak = { startMs: 0, lastMs: Number.NEGATIVE_INFINITY };

  /** Records that a request has arrived. */
  recordArrival(nowMs: number): void {
    const { startMs, lastMs } = this.#streak;
    const isGap = nowMs < lastMs || nowMs - lastMs >= MAX_GAP_MS;
    this.#streak = { startMs: isGap ? nowMs : startMs, lastMs: nowMs };
    this.#latest.requests += 1;
  }

  /** Consumes one leased request, if there is one. `minuteMs`: when the minute began, by the object's clock (Unix time). */
  consume(nowMs: number, minuteMs: number): boolean {
    for (const { id, requestedMs, durationMs, grantedMs } of this.#held) {
      // If this clock has stepped back, the lease's age is unknown; if the object's has stepped on, its minute is over.
      const isGood = requestedMs <= nowMs && nowMs < requestedMs + durationMs && grantedMs >= minuteMs;
      if (!isGood) this.end(id);
    }
    const [oldest] = this.#held;
    if (oldest === undefined) return false;
    oldest.left -= 1;
    if (oldest.left === 0) this.end(oldest.id);
    return true;
  }

  /** Whether to ask for the next lease, once a lease: half of the newest is used, or it will soon be over. */
  shouldRenew(nowMs: number): boolean {
    const newest = this.#held.at(-1);
    if (newest === undefined || this.#latest.requestedMs > newest.requestedMs) return false;
    return newest.left <= newest.size / 2 || nowMs >= newest.renewMs;
  }

  /** The lease to ask for with a batch, if any. `objectMs`: what time it is by the object's clock (Unix time). */
  request(id: string, nowMs: number, objectMs: number): AcquireRequest["lease"] {
    if (nowMs - this.#streak.startMs < STREAK_MS) return undefined;
    const { requests, requestedMs } = this.#latest;
    const sampleMs = Math.max(MIN_SAMPLE_MS, nowMs - requestedMs);
    const isFirst = nowMs < requestedMs || sampleMs >= 2 * LEASE_MS;
    const wanted = isFirst ? 0 : Math.ceil((HEADROOM * LEASE_MS * requests) / sampleMs);
    // Half of what the minute has left, so that the lease still ends in it however long the call takes.
    const halfMs = Math.floor((MINUTE_MS - (objectMs % MINUTE_MS) - LEASE_MARGIN_MS) / 2);
    const durationMs = Math.min(isFirst ? FIRST_LEASE_MS : LEASE_MS, halfMs);
    if (durationMs < LEASE_MARGIN_MS) return undefined;
    this.#latest = { id, requestedMs: nowMs, requests: 0 };
    return { size: Math.max(FIRST_SIZE, wanted), durationMs };
  }

  /** Takes over a lease that was asked for at `requestedMs`. */
  add(lease: Lease, requestedMs: number, nowMs: number): void {
    const renewMs = requestedMs + lease.durationMs - RENEW_MS - RENEW_CALLS * (nowMs - requestedMs);
    this.#held = [...this.#held, { ...lease, left: lease.size, requestedMs, renewMs }];
    this.#latest.id = "";
  }

  /** Ends a lease, unless it has ended. */
  end(id: string): void {
    const lease = this.#held.find((each) => each.id === id);
    if (lease === undefined) return;
    this.#held = this.#held.filter((each) => each !== lease);
    this.endUnused(id, lease.left);
  }

  /** Ends a lease with so many unused requests. Its answer may have been lost, so that it was never held. */
  endUnused(id: string, unused: number): void {
    this.ended = [...this.ended, { id, unused }].slice(-MAX_ENDED);
  }

  acknowledge(released: Report["released"]): void {
    this.ended = this.ended.filter((each) => !released.includes(each));
  }

  /** How many requests of an outstanding lease this isolate was charged for and has not used. */
  unused({ id, size }: Lease): number {
    // Granted, but the answer is still on its way: another one has overtaken it.
    if (this.#latest.id === id) return size;
    const held = this.#held.find((each) => each.id === id);
    return held?.left ?? Math.min(this.ended.find((each) => each.id === id)?.unused ?? 0, size);
  }
}
