// How an isolate counts the requests of one key: from a lease if it holds one, else by calls to the key's object (protocol.ts). One
// call is under way at a time; requests that arrive meanwhile wait, and the next call counts all of them. So a burst costs one or
// two calls, not one a request.

import { randomBase62 } from "../../lib/base62.ts";
import type { Runtime } from "../../lib/runtime.ts";
import type { AcquireRequest, AcquireResult } from "../protocol.ts";
import { BATCH_ID_LENGTH } from "../protocol.ts";
import { type Count, type KeyDecision, type Limits, mapWindows } from "../windows.ts";
import { callObject, MAX_CALL_MS } from "./call-object.ts";
import { HeldLeases } from "./held-leases.ts";
import { KnownQuota } from "./known-quota.ts";

/** After an undecided answer: about as long as a release needs to arrive. */
const UNDECIDED_PAUSE_MS = 100;
/** The pauses before each attempt to release a lease, or to report what was decided locally, and how often that begins at most. */
const RELEASE_PAUSES_MS = [0, 1_000, 3_000];
const REPORT_PAUSES_MS = [1_000, 3_000];
const REPORT_INTERVAL_MS = 1_000;

export type Limiters = Env["RATE_LIMITER"];
/** Is told why the object could not be reached. */
export type OnLocal = (error: unknown) => void;

/** A request that waits for a decision. `failure` says why it was decided locally. */
type Waiter = { arrivedMs: number; decision?: KeyDecision; failure?: unknown };

export class LimiterClient {
  readonly #runtime: Runtime;
  readonly #keyId: string;
  readonly #leases = new HeldLeases();
  readonly known: KnownQuota;
  /** As the latest request has them. */
  #limits: Limits = { minute: 0, day: 0 };
  #limiters: Limiters | undefined;
  #waiters: Waiter[] = [];
  /** By the isolate's clock (Unix time): when the next call may begin. */
  #busyUntilMs = 0;
  #lastReportMs = Number.NEGATIVE_INFINITY;

  constructor(runtime: Runtime, keyId: string) {
    this.#runtime = runtime;
    this.#keyId = keyId;
    this.known = new KnownQuota(runtime, this.#leases);
  }

  /** Counts one request, at once if no call is needed. `onLocal` is told if it was decided locally. */
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
      // Also if the client leaves: others may wait for this one's call, and it must not be counted at some later time.
      this.#runtime.keepAlive(waiting);
      return waiting;
    }
    if (this.#leases.shouldRenew(nowMs) && !this.#isBusy()) this.#runtime.keepAlive(this.#callForBatch());
    return leased;
  }

  /** Waits for a decision, and calls for all that wait whenever no call is under way. */
  async #wait(waiter: Waiter, onLocal: OnLocal): Promise<KeyDecision> {
    this.#waiters.push(waiter);
    while (waiter.decision === undefined) {
      if (this.#isBusy()) await this.#runtime.until(() => waiter.decision !== undefined || !this.#isBusy());
      else await this.#callForBatch();
    }
    if (waiter.failure !== undefined) onLocal(waiter.failure);
    return waiter.decision;
  }

  /** Whether a call is under way, or an undecided answer came a moment ago. */
  #isBusy(): boolean {
    const leftMs = this.#busyUntilMs - this.#runtime.now();
    // More is left only after a step of the clock.
    return leftMs > 0 && leftMs <= MAX_CALL_MS;
  }

  /** Has the object count all requests that wait, and asks for a lease if more will probably follow. */
  async #callForBatch(): Promise<void> {
    const sentMs = this.#runtime.now();
    const waiters = [...this.#waiters];
    const id = randomBase62(BATCH_ID_LENGTH);
    const report = this.known.report();
    const lease = this.#leases.request(id, sentMs, this.known.objectMs);
    if (waiters.length === 0 && lease === undefined) return;
    // A call that takes longer was cut off, with the request that made it.
    this.#busyUntilMs = sentMs + MAX_CALL_MS;
    const request = { ...this.#batch(id, waiters), ...report, ...(lease && { lease }) };
    // It runs from before the object knows of the lease, so that it ends before the object's time for it is over.
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
      // Those who wait for the next call would only wait for that to fail.
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
    return callObject(this.#runtime, "the limiter", async () => call(limiters.getByName(this.#keyId)));
  }

  /** Admits one request that the object has charged already. */
  #useLease(nowMs: number): KeyDecision | undefined {
    if (!this.#leases.consume(nowMs, this.known.minuteMs)) return undefined;
    return { admitted: true, nowMs: this.known.objectMs, windows: this.known.windows(this.#limits) };
  }

  /** Serves requests that wait, as far as a lease that has just come suffices. */
  #serveFromLeases(): void {
    for (let waiter = this.#waiters[0]; waiter !== undefined; waiter = this.#waiters[0]) {
      const decision = this.#useLease(this.#runtime.now());
      if (decision === undefined) return;
      waiter.decision = decision;
      this.#waiters.shift();
    }
  }

  /** Gives the requests of a batch their decisions, in their order; the undecided ones have none. */
  #settle(waiters: Waiter[], result: AcquireResult, failure?: unknown): void {
    const { admitted, refused, nowMs, windows, bannedUntilMs } = result;
    const after = this.known.excludingHeldLeases(result);
    const refusal = { admitted: false, nowMs, windows, ...(bannedUntilMs && { bannedUntilMs }) };
    for (const [index, waiter] of waiters.slice(0, admitted + refused).entries()) {
      const later = admitted - 1 - index;
      // A repeated answer may come when a new window has begun, in which nothing was used.
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

  /** Ends a lease by a timer, so that a client that pauses gets back what it has not used. */
  async #endLease(id: string, leaseTime: unknown): Promise<void> {
    await leaseTime;
    this.#leases.end(id);
    await this.#sendReport(RELEASE_PAUSES_MS);
  }

  /** Reports in the background, unless that was done a moment ago. */
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
        // Again after the next pause, or with the next batch.
      }
    }
  }
}
