// The leases of one key that an isolate holds or has to release. A lease's time runs from before its request, by the isolate's
// clock, so it ends before the object's time for it does, whatever the difference of the clocks. A timer ends it too, because
// timers don't step. All times here are the isolate's (Unix time).

import { type AcquireRequest, LEASE_MARGIN_MS, LEASE_MS, type Lease, type Report } from "../protocol.ts";
import { WINDOW_SECONDS } from "../windows.ts";

/** A lease is requested once requests have arrived for this long without a gap. */
const STREAK_MS = 50;
const MAX_GAP_MS = 400;
/** The first lease, before a rate is known. */
const FIRST_SIZE = 4;
const FIRST_LEASE_MS = 200;
/** Later leases are for the rate since the last one, times this. A shorter sample gives no rate. */
const HEADROOM = 1.5;
const MIN_SAMPLE_MS = 50;
/** A lease is renewed this long before its end, plus the time of 1½ calls. */
const RENEW_MS = 100;
const RENEW_CALLS = 1.5;
/** If an outage lasts longer than this list, the unused requests of further leases stay charged. */
const MAX_ENDED = 100;
const MINUTE_MS = WINDOW_SECONDS.minute * 1000;

type HeldLease = Lease & { left: number; requestedMs: number; renewMs: number };

export class HeldLeases {
  /** Oldest first; consumed in this order. */
  #held: readonly HeldLease[] = [];
  /** Ended leases that the object has not acknowledged. */
  ended: Report["released"] = [];
  /** The latest lease request (no id once it is granted), and the number of requests since. */
  #latest = { id: "", requestedMs: Number.NEGATIVE_INFINITY, requests: 0 };
  #streak = { startMs: 0, lastMs: Number.NEGATIVE_INFINITY };

  recordArrival(nowMs: number): void {
    const { startMs, lastMs } = this.#streak;
    const isGap = nowMs < lastMs || nowMs - lastMs >= MAX_GAP_MS;
    this.#streak = { startMs: isGap ? nowMs : startMs, lastMs: nowMs };
    this.#latest.requests += 1;
  }

  /** Consumes one leased request, if there is one. `minuteMs`: the start of the minute, by the object's clock (Unix time). */
  consume(nowMs: number, minuteMs: number): boolean {
    for (const { id, requestedMs, durationMs, grantedMs } of this.#held) {
      // After this clock steps back, the lease's age is unknown; after the object's steps forward, the lease's minute is over.
      const isGood = requestedMs <= nowMs && nowMs < requestedMs + durationMs && grantedMs >= minuteMs;
      if (!isGood) this.end(id);
    }
    const [oldest] = this.#held;
    if (oldest === undefined) return false;
    oldest.left -= 1;
    if (oldest.left === 0) this.end(oldest.id);
    return true;
  }

  /** Whether to request the next lease: the newest is half used or ends soon. True until one is requested. */
  shouldRenew(nowMs: number): boolean {
    const newest = this.#held.at(-1);
    if (newest === undefined || this.#latest.requestedMs > newest.requestedMs) return false;
    return newest.left <= newest.size / 2 || nowMs >= newest.renewMs;
  }

  /** The lease to request with a batch, if any. `objectMs`: the time by the object's clock (Unix time). */
  request(id: string, nowMs: number, objectMs: number): AcquireRequest["lease"] {
    if (nowMs - this.#streak.startMs < STREAK_MS) return undefined;
    const { requests, requestedMs } = this.#latest;
    const sampleMs = Math.max(MIN_SAMPLE_MS, nowMs - requestedMs);
    const isFirst = nowMs < requestedMs || sampleMs >= 2 * LEASE_MS;
    const wanted = isFirst ? 0 : Math.ceil((HEADROOM * LEASE_MS * requests) / sampleMs);
    // At most half of the minute's rest, so that the lease ends within the minute however long the call takes.
    const halfMs = Math.floor((MINUTE_MS - (objectMs % MINUTE_MS) - LEASE_MARGIN_MS) / 2);
    const durationMs = Math.min(isFirst ? FIRST_LEASE_MS : LEASE_MS, halfMs);
    if (durationMs < LEASE_MARGIN_MS) return undefined;
    this.#latest = { id, requestedMs: nowMs, requests: 0 };
    return { size: Math.max(FIRST_SIZE, wanted), durationMs };
  }

  /** Adds a granted lease that was requested at `requestedMs`. */
  add(lease: Lease, requestedMs: number, nowMs: number): void {
    const renewMs = requestedMs + lease.durationMs - RENEW_MS - RENEW_CALLS * (nowMs - requestedMs);
    this.#held = [...this.#held, { ...lease, left: lease.size, requestedMs, renewMs }];
    this.#latest.id = "";
  }

  end(id: string): void {
    const lease = this.#held.find((each) => each.id === id);
    if (lease === undefined) return;
    this.#held = this.#held.filter((each) => each !== lease);
    this.endUnused(id, lease.left);
  }

  /** Ends a lease that may never have been held, because its response was lost. */
  endUnused(id: string, unused: number): void {
    this.ended = [...this.ended, { id, unused }].slice(-MAX_ENDED);
  }

  acknowledge(released: Report["released"]): void {
    this.ended = this.ended.filter((each) => !released.includes(each));
  }

  /** How many requests of an outstanding lease this isolate holds unused. */
  unused({ id, size }: Lease): number {
    // The lease was granted, but a later response has overtaken that of its request.
    if (this.#latest.id === id) return size;
    const held = this.#held.find((each) => each.id === id);
    return held?.left ?? Math.min(this.ended.find((each) => each.id === id)?.unused ?? 0, size);
  }
}
