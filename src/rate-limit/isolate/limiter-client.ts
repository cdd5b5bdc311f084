// An isolate's client of the limiter for one key. It counts requests from a lease, or by calls to the key's object (protocol.ts).
// Only one call runs at a time; requests that arrive meanwhile wait, and the next call counts all of them. So a burst costs one
// or two calls.

import { randomBase62 } from "../../lib/base62.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { type AcquireRequest, type AcquireResult, BATCH_ID_LENGTH } from "../protocol.ts";
import { type Count, type KeyDecision, type Limits, mapWindows } from "../windows.ts";
import { callObject, MAX_CALL_MS } from "./call-object.ts";
import { HeldLeases } from "./held-leases.ts";
import { KnownQuota } from "./known-quota.ts";

/** After an undecided response: about the time that a release needs. */
const UNDECIDED_PAUSE_MS = 100;
/** The pauses before each attempt to release a lease or to report local decisions. */
const RELEASE_PAUSES_MS = [0, 1_000, 3_000];
const REPORT_PAUSES_MS = [1_000, 3_000];
/** The shortest time between two reports of local decisions. */
const REPORT_INTERVAL_MS = 1_000;

export type Limiters = Env["RATE_LIMITER"];
/** Called with the reason if a request was decided locally. */
export type OnLocal = (error: unknown) => void;

/** A request that waits for its decision. `failure` is set if it was decided locally. */
type Waiter = { arrivedMs: number; decision?: KeyDecision; failure?: unknown };

export class LimiterClient {
  readonly #runtime: Runtime;
  readonly #keyId: string;
  readonly #leases = new HeldLeases();
  readonly known: KnownQuota;
  /** From the latest request. */
  #limits: Limits = { minute: 0, day: 0 };
  #limiters: Limiters | undefined;
  #waiters: Waiter[] = [];
  /** When the next call may begin, by the isolate's clock (Unix time). */
  #busyUntilMs = 0;
  #lastReportMs = Number.NEGATIVE_INFINITY;

  constructor(runtime: Runtime, keyId: string) {
    this.#runtime = runtime;
    this.#keyId = keyId;
    this.known = new KnownQuota(runtime, this.#leases);
  }

  /** Counts one request, synchronously if no call is needed. */
  acquire(limits: Limits, limiters: Limiters, onLocal: OnLocal): KeyDecision | Promise<KeyDecision> {
    this.#limits = limits;
    this.#limiters = limiters;
    const nowMs = this.#runtime.now();
    this.#leases.recordArrival(nowMs);
    const known = this.known.wasBanned ? this.known.peek(limits) : undefined;
    if (known?.bannedUntilMs !== undefined) {
      this.#reportSoon([0]);
      return known;
    }
    const leased = this.#useLease(nowMs);
    if (leased === undefined) {
      const waiting = this.#wait({ arrivedMs: nowMs }, onLocal);
      // It continues if its client leaves: other requests may wait for its call, and it must not be counted later.
      this.#runtime.keepAlive(waiting);
      return waiting;
    }
    if (this.#leases.shouldRenew(nowMs) && !this.#isBusy()) this.#runtime.keepAlive(this.#callForBatch());
    return leased;
  }

  /** Waits for a decision. Whenever no call is running, calls for all waiting requests. */
  async #wait(waiter: Waiter, onLocal: OnLocal): Promise<KeyDecision> {
    this.#waiters.push(waiter);
    while (waiter.decision === undefined) {
      if (this.#isBusy()) await this.#runtime.until(() => waiter.decision !== undefined || !this.#isBusy());
      else await this.#callForBatch();
    }
    if (waiter.failure !== undefined) onLocal(waiter.failure);
    return waiter.decision;
  }

  /** Whether a call is running, or an undecided response has just come. */
  #isBusy(): boolean {
    const leftMs = this.#busyUntilMs - this.#runtime.now();
    // More than MAX_CALL_MS is left only after the clock has stepped back.
    return leftMs > 0 && leftMs <= MAX_CALL_MS;
  }

  /** Calls the object to count all waiting requests, and requests a lease if more requests are likely. */
  async #callForBatch(): Promise<void> {
    const sentMs = this.#runtime.now();
    const waiters = [...this.#waiters];
    const id = randomBase62(BATCH_ID_LENGTH);
    const report = this.known.report();
    const lease = this.#leases.request(id, sentMs, this.known.objectMs);
    if (waiters.length === 0 && lease === undefined) return;
    // A call that takes longer was cancelled together with its request.
    this.#busyUntilMs = sentMs + MAX_CALL_MS;
    const request = { ...this.#batch(id, waiters), ...report, ...(lease && { lease }) };
    // The timer starts before the object grants the lease, so the lease ends here before it ends at the object.
    const leaseTime = lease && this.#runtime.wait(lease.durationMs);
    let pauseMs = 0;
    try {
      const result = await this.#call((limiter) => limiter.acquire(this.#limits, request));
      if (result.lease !== undefined) {
        this.#leases.add(result.lease, sentMs, this.#runtime.now());
        this.#runtime.keepAlive(this.#endLease(id, leaseTime));
      }
      this.known.acknowledge(report, result);
      this.#settle(waiters, result);
      this.#serveFromLeases();
      if (result.admitted + result.refused < waiters.length) pauseMs = UNDECIDED_PAUSE_MS;
    } catch (failure) {
      if (lease !== undefined) this.#leases.endUnused(id, lease.size);
      this.#decideLocally(id, waiters, failure);
      // The next call would probably fail too.
      this.#decideLocally(randomBase62(BATCH_ID_LENGTH), [...this.#waiters], failure);
      this.#reportSoon(REPORT_PAUSES_MS);
    }
    this.#busyUntilMs = pauseMs > 0 ? this.#runtime.now() + pauseMs : 0;
  }

  #batch(id: string, waiters: Waiter[]): Pick<AcquireRequest, "id" | "requests" | "waitedMs"> {
    const nowMs = this.#runtime.now();
    return { id, requests: waiters.length, waitedMs: Math.max(0, nowMs - (waiters[0]?.arrivedMs ?? nowMs)) };
  }

  #call<Result>(call: (limiter: ReturnType<Limiters["getByName"]>) => Promise<Result>): Promise<Result> {
    const limiters = this.#limiters as Limiters;
    return callObject(this.#runtime, async () => call(limiters.getByName(this.#keyId)));
  }

  /** Admits one request from a lease. */
  #useLease(nowMs: number): KeyDecision | undefined {
    if (!this.#leases.consume(nowMs, this.known.minuteMs)) return undefined;
    return { admitted: true, nowMs: this.known.objectMs, windows: this.known.windows(this.#limits) };
  }

  /** Admits waiting requests from a lease that has just been granted. */
  #serveFromLeases(): void {
    for (let waiter = this.#waiters[0]; waiter !== undefined; waiter = this.#waiters[0]) {
      const decision = this.#useLease(this.#runtime.now());
      if (decision === undefined) return;
      waiter.decision = decision;
      this.#waiters.shift();
    }
  }

  /** Gives the requests of a batch their decisions, in order of arrival. Undecided requests get none. */
  #settle(waiters: Waiter[], result: AcquireResult, failure?: unknown): void {
    const { admitted, refused, nowMs, windows, bannedUntilMs } = result;
    const after = this.known.excludingHeldLeases(result);
    const refusal = { admitted: false, nowMs, windows, ...(bannedUntilMs && { bannedUntilMs }) };
    for (const [index, waiter] of waiters.slice(0, admitted + refused).entries()) {
      const later = admitted - 1 - index;
      // The result of a retry may belong to a new window, in which nothing is used.
      const before = <Each extends Count>(each: Each) => ({ ...each, used: Math.max(0, each.used - later) });
      if (waiter.decision !== undefined) continue;
      waiter.decision = later < 0 ? refusal : { admitted: true, nowMs, windows: mapWindows(after, before) };
      waiter.failure = failure;
    }
    this.#waiters = this.#waiters.filter(({ decision }) => decision === undefined);
  }

  #decideLocally(id: string, waiters: Waiter[], failure: unknown): void {
    this.#settle(waiters, this.known.decide(this.#limits, this.#batch(id, waiters)), failure);
  }

  /** Ends a lease by a timer, so that a client that pauses gets back its unused requests. */
  async #endLease(id: string, leaseTime: unknown): Promise<void> {
    await leaseTime;
    this.#leases.end(id);
    await this.#sendReport(RELEASE_PAUSES_MS);
  }

  /** Reports in the background, unless a report began within the last second. */
  #reportSoon(pausesMs: readonly number[]): void {
    const nowMs = this.#runtime.now();
    if (Math.abs(nowMs - this.#lastReportMs) < REPORT_INTERVAL_MS) return;
    this.#lastReportMs = nowMs;
    this.#runtime.keepAlive(this.#sendReport(pausesMs));
  }

  /** Reports, and again after each pause until the object has received it. */
  async #sendReport(pausesMs: readonly number[]): Promise<void> {
    for (const pauseMs of pausesMs) {
      if (pauseMs > 0) await this.#runtime.wait(pauseMs);
      const report = this.known.report();
      if (report.released.length + report.outbox.length + report.bannedUntilMs === 0) return;
      try {
        this.known.acknowledge(report, await this.#call((limiter) => limiter.release(this.#limits, report)));
        return;
      } catch {
        // The next attempt or batch repeats the report.
      }
    }
  }
}
