// How an isolate counts the requests of one key: from a lease if it holds one, else by calls to the key's object (protocol.ts). One
// call is under way at a time; requests that arrive meanwhile wait, and the next call counts all of them. So a burst costs one or
// two calls, not one a request. The last status is remembered, to answer during a ban without a call, and to decide
// locally while the object can't be reached: isolates then don't know of each other, so together they may exceed the limit.

import { randomBase62 } from "../../lib/base62.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { acquire, type Quota, UNUSED_QUOTA } from "../object/quota.ts";
import type { AcquireRequest, AcquireResult, Lease, Report, Status } from "../protocol.ts";
import { BATCH_ID_LENGTH } from "../protocol.ts";
import { type KeyDecision, type KeyWindows, type Limits, mapWindows, peek, type Window } from "../windows.ts";
import { callObject, MAX_CALL_MS } from "./call-object.ts";
import { HeldLeases } from "./held-leases.ts";

/** After an undecided answer: about as long as a release needs to arrive. */
const UNDECIDED_PAUSE_MS = 100;
/** The pauses before each attempt to release a lease, or to report what was decided locally, and how often that begins at most. */
const RELEASE_PAUSES_MS = [0, 1_000, 3_000];
const REPORT_PAUSES_MS = [1_000, 3_000];
const REPORT_INTERVAL_MS = 1_000;

/** In an outage with more batches than this, the admissions of the others are never charged. */
const MAX_OUTBOX = 100;

export type Limiters = Env["RATE_LIMITER"];
/** Is told why the object could not be reached. */
export type OnLocal = (error: unknown) => void;

/** A request that waits for a decision. `failure` says why it was decided locally. */
type Waiter = { arrivedMs: number; decision?: KeyDecision; failure?: unknown };

export class LimiterClient {
  readonly #runtime: Runtime;
  readonly #keyId: string;
  readonly #leases = new HeldLeases();
  /** As the latest request has them. */
  #limits: Limits = { minute: 0, day: 0 };
  #limiters: Limiters | undefined;
  #waiters: Waiter[] = [];
  /** By the isolate's clock (Unix time): when the next call may begin. */
  #busyUntilMs = 0;
  /** The last status, with what was admitted locally since; when it was made, by the object's clock, and when it came. */
  #quota: Quota = UNUSED_QUOTA;
  #status: { madeMs: number; cameMs: number } | undefined;
  /** What was decided locally, and the object has not acknowledged. */
  #outbox: Report["outbox"] = [];
  #localBanMs = 0;
  #lastReportMs = Number.NEGATIVE_INFINITY;

  constructor(runtime: Runtime, keyId: string) {
    this.#runtime = runtime;
    this.#keyId = keyId;
  }

  /** Whether a request would be admitted, from what is known here. Makes no call. */
  peek(limits: Limits): KeyDecision {
    const nowMs = this.#objectMs();
    const { windows, bannedUntilMs } = this.#quota;
    const limited = mapWindows(windows, (each, name) => ({ ...each, limit: limits[name] }));
    const decision = peek(limited, nowMs);
    // If the clock has stepped back to before the status came, the end of the ban is unknown.
    const isBanned = nowMs < bannedUntilMs && this.#runtime.now() >= (this.#status?.cameMs ?? 0);
    return isBanned ? { ...decision, admitted: false, bannedUntilMs } : decision;
  }

  /** Remembers a status that the object gave. Returns what is known now, without what this isolate holds and has not used. */
  apply(status: Status): KeyDecision {
    this.#remember(status);
    const { bannedUntilMs } = this.#quota;
    const ban = status.nowMs < bannedUntilMs ? { bannedUntilMs } : {};
    return { admitted: true, nowMs: status.nowMs, windows: this.#excludingHeldLeases(this.#quota), ...ban };
  }

  /** Counts one request, at once if no call is needed. `onLocal` is told if it was decided locally. */
  acquire(limits: Limits, limiters: Limiters, onLocal: OnLocal): KeyDecision | Promise<KeyDecision> {
    this.#limits = limits;
    this.#limiters = limiters;
    const nowMs = this.#runtime.now();
    this.#leases.see(nowMs);
    const known = this.#quota.bannedUntilMs > 0 ? this.peek(limits) : undefined;
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
    if (this.#leases.isDue(nowMs) && !this.#isBusy()) this.#runtime.keepAlive(this.#callForBatch());
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
    const report = this.#report();
    const lease = this.#leases.request(id, sentMs, this.#objectMs());
    if (waiters.length === 0 && lease === undefined) return;
    // A call that takes longer was cut off, with the request that made it.
    this.#busyUntilMs = sentMs + MAX_CALL_MS;
    const request = { ...this.#batch(id, waiters), ...report, ...(lease && { lease }) };
    // It runs from before the object knows of the lease, so that it ends before the object's time for it is over.
    const leaseTime = lease && this.#runtime.wait(lease.forMs);
    let pauseMs = 0;
    try {
      const result = await this.#call((limiter) => limiter.acquire(this.#limits, request));
      if (result.lease !== undefined) {
        this.#leases.add(result.lease, sentMs, this.#runtime.now());
        this.#runtime.keepAlive(this.#endLease(id, leaseTime));
      }
      this.#acknowledge(report, result);
      this.#settle(waiters, result);
      this.#serveFromLeases();
      if (result.admitted + result.refused < waiters.length) pauseMs = UNDECIDED_PAUSE_MS;
    } catch (failure) {
      if (lease !== undefined) this.#leases.lose(id, lease.size);
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
    const { windows } = this.#quota;
    if (!this.#leases.use(nowMs, windows.minute.startMs)) return undefined;
    return { admitted: true, nowMs: this.#objectMs(), windows: this.#excludingHeldLeases(this.#quota) };
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
    const after = this.#excludingHeldLeases(result);
    const refusal = { admitted: false, nowMs, windows, ...(bannedUntilMs && { bannedUntilMs }) };
    for (const [index, waiter] of waiters.slice(0, admitted + refused).entries()) {
      const later = admitted - 1 - index;
      // A repeated answer may come when a new window has begun, in which nothing was used.
      const before = (each: Window) => ({ ...each, used: Math.max(0, each.used - later) });
      if (waiter.decision !== undefined) continue;
      waiter.decision = later < 0 ? refusal : { admitted: true, nowMs, windows: mapWindows(after, before) };
      waiter.failure = failure;
    }
    this.#waiters = this.#waiters.filter(({ decision }) => decision === undefined);
  }

  /** Decides as the object would if it knew what is known here. */
  #decideLocally(id: string, waiters: Waiter[], failure: unknown): void {
    const atMs = this.#objectMs();
    const { revision, leases } = this.#quota;
    const request = { ...this.#batch(id, waiters), released: [], outbox: [], bannedUntilMs: 0 };
    const { result, quota } = acquire({ ...this.#quota, leases: [] }, this.#limits, request, atMs);
    this.#quota = { ...quota, revision, leases };
    if (result.admitted > 0)
      this.#outbox = [...this.#outbox, { id, requests: result.admitted, atMs }].slice(-MAX_OUTBOX);
    this.#localBanMs = Math.max(this.#localBanMs, result.bannedUntilMs ?? 0);
    this.#settle(waiters, result, failure);
  }

  /** Ends a lease by a timer, so that a client that pauses gets back what it has not used. */
  async #endLease(id: string, leaseTime: unknown): Promise<void> {
    await leaseTime;
    this.#leases.end(id);
    await this.#sendReport(RELEASE_PAUSES_MS);
  }

  #report(): Report {
    return { released: this.#leases.ended, outbox: this.#outbox, bannedUntilMs: this.#localBanMs };
  }

  /** Reports in the background, unless that was done a moment ago. */
  #reportSoon(pausesMs: readonly number[]): void {
    const nowMs = this.#runtime.now();
    if (Math.abs(nowMs - this.#lastReportMs) < REPORT_INTERVAL_MS) return;
    this.#lastReportMs = nowMs;
    this.#runtime.keepAlive(this.#sendReport(pausesMs));
  }

  /** Reports, and again after each pause until the object has heard it. */
  async #sendReport(pausesMs: readonly number[]): Promise<void> {
    for (const pauseMs of pausesMs) {
      if (pauseMs > 0) await this.#runtime.wait(pauseMs);
      const report = this.#report();
      if (report.released.length + report.outbox.length + report.bannedUntilMs === 0) return;
      try {
        this.#acknowledge(report, await this.#call((limiter) => limiter.release(this.#limits, report)));
        return;
      } catch {
        // Again after the next pause, or with the next batch.
      }
    }
  }

  /** The object has heard a report, and answered with a status. */
  #acknowledge({ released, outbox, bannedUntilMs }: Report, status: Status): void {
    this.#leases.acknowledge(released);
    this.#outbox = this.#outbox.filter((each) => !outbox.includes(each));
    if (bannedUntilMs === this.#localBanMs) this.#localBanMs = 0;
    this.#remember(status);
  }

  /** Remembers a status, unless a newer one is known: answers can overtake each other. */
  #remember({ revision, nowMs, bannedUntilMs = 0, windows, leases }: Status): void {
    const isOlder = revision === this.#quota.revision && nowMs < (this.#status?.madeMs ?? 0);
    if (revision < this.#quota.revision || isOlder) return;
    // What the object has not been told of is not in what it says.
    const untold = (each: Window) => this.#outbox.filter(({ atMs }) => atMs >= each.startMs);
    const complete = (each: Window) => untold(each).reduce((sum, { requests }) => sum + requests, each.used);
    this.#status = { madeMs: nowMs, cameMs: this.#runtime.now() };
    this.#quota = {
      ...UNUSED_QUOTA,
      revision,
      windows: mapWindows(windows, (each) => ({ ...each, used: complete(each) })),
      bannedUntilMs: Math.max(bannedUntilMs, this.#localBanMs),
      leases,
    };
  }

  /** What is charged, without what this isolate holds and has not used. */
  #excludingHeldLeases({ windows, leases }: { windows: KeyWindows; leases: readonly Lease[] }): KeyWindows {
    return mapWindows(windows, (each) => {
      let { used } = each;
      for (const lease of leases) if (lease.atMs >= each.startMs) used -= this.#leases.unused(lease);
      return { ...each, used };
    });
  }

  /** What time it is by the clock of the object, or a little earlier, because its status has been on the way. */
  #objectMs(): number {
    const nowMs = this.#runtime.now();
    const { madeMs, cameMs } = this.#status ?? { madeMs: nowMs, cameMs: nowMs };
    return madeMs + Math.max(0, nowMs - cameMs);
  }
}
