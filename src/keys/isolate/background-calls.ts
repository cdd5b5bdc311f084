// The calls of an isolate that no request waits for: a timer renews a lease in use, or reports its end, and local decisions are reported.

import type { Runtime } from "../../lib/runtime.ts";
import { LATE_MS, MAX_WAIT_MS } from "../protocol.ts";
import { MAX_CALLS, REQUEST_CALLS, SECOND_MS } from "./call-pace.ts";
import type { TimedLease } from "./held-lease.ts";
import type { KnownQuota } from "./known-quota.ts";

/** A timer belongs to a request, which Cloudflare ends 30 s after its response; then another request has to renew the lease. */
const MAX_RENEWALS = 5;
/** A report that takes longer was cancelled together with its request. */
const MAX_REPORT_MS = 4 * MAX_WAIT_MS;

/** The calls that count (counting-calls.ts). */
interface Calls {
  /** The call under way. */
  readonly current: object | undefined;
  isBusy(calls: number): boolean;
  call(wantsLease: boolean): Promise<void>;
  /** Gives up the call under way. */
  giveUp(): void;
  readonly waiting: { all: readonly unknown[] };
}

export class BackgroundCalls {
  readonly #runtime: Runtime;
  readonly #known: KnownQuota;
  readonly #calls: Calls;
  /** The number of renewals in a row. */
  #renewals = 0;
  #reportingSinceMs = Number.NEGATIVE_INFINITY;

  constructor(runtime: Runtime, known: KnownQuota, calls: Calls) {
    this.#runtime = runtime;
    this.#known = known;
    this.#calls = calls;
  }

  /** Whether timers renew the lease. Otherwise requests have to. */
  get renews(): boolean {
    return this.#renewals < MAX_RENEWALS;
  }

  allowRenewals(): void {
    this.#renewals = 0;
  }

  /** When a lease's time comes to an end, renews it if requests still come. Otherwise reports its end. */
  async renewOrEnd(lease: TimedLease): Promise<void> {
    const nowMs = this.#runtime.now();
    const end = this.#runtime.wait(lease.untilMs - nowMs);
    await this.#runtime.wait(lease.renewMs - nowMs);
    const isInUse = this.renews && this.#known.lease.isInUse(lease, this.#runtime.now());
    if (isInUse && !this.#calls.isBusy(REQUEST_CALLS)) {
      this.#renewals += 1;
      await this.#calls.call(true);
    }
    await end;
    if (!this.#known.lease.end(lease)) return;
    // In the next minute, the next request calls anyway.
    if (this.#known.hasNextMinute(LATE_MS)) this.reportSoon();
    else await this.#report(0);
  }

  /** Reports once a second. */
  reportSoon(): void {
    const nowMs = this.#runtime.now();
    if (Math.abs(nowMs - this.#reportingSinceMs) < MAX_REPORT_MS) return;
    this.#reportingSinceMs = nowMs;
    this.#runtime.keepAlive(this.#report(SECOND_MS));
  }

  /** Reports after a pause what the object does not know yet. */
  async #report(pauseMs: number): Promise<void> {
    await this.#runtime.wait(pauseMs);
    const call = this.#calls.current;
    await this.#runtime.until(() => !this.#calls.isBusy(MAX_CALLS), MAX_WAIT_MS);
    // It was cancelled together with its request.
    if (call !== undefined && call === this.#calls.current) this.#calls.giveUp();
    // What follows from now on is in the next report.
    if (pauseMs > 0) this.#reportingSinceMs = Number.NEGATIVE_INFINITY;
    const { local, lease } = this.#known;
    if (local.decisions.length === 0 && !lease.isEnded) return;
    if (this.#calls.isBusy(MAX_CALLS)) this.reportSoon();
    else await this.#calls.call(this.#calls.waiting.all.length > 0);
  }
}
