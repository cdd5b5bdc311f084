// The calls of an isolate that count requests of one key, of which one runs at a time. If it fails, or if a request can't wait any longer, the
// isolate decides by itself.

import { DatabaseUnavailable } from "../../d1/statements.ts";
import { DeadlineExceeded } from "../../lib/deadline.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { type KeyDecision, startOfWindowMs } from "../../rate-limit/windows.ts";
import { type AcquireAnswer, type AcquireRequest, type AcquireResult, MAX_WAIT_MS } from "../protocol.ts";
import { BackgroundCalls } from "./background-calls.ts";
import { CALL_DEADLINE_MS } from "./call-object.ts";
import { CallPace, REQUEST_CALLS } from "./call-pace.ts";
import type { KnownQuota } from "./known-quota.ts";
import { type Waiter, WaitingRequests } from "./waiting-requests.ts";

/** A request that may wait for less is decided without the object. Longer: fewer calls in vain; shorter: more patience. */
export const MIN_CALL_MS = 400;

/** Calls the object for waiting requests, also again. `prepare` completes the call before each attempt. */
type Acquire = (
  prepare: () => AcquireRequest,
  maxMs: number,
  waiters: readonly Waiter[],
) => Promise<AcquireAnswer>;

export class CountingCalls {
  readonly waiting: WaitingRequests;
  readonly background: BackgroundCalls;
  readonly #clientId: string;
  readonly #runtime: Runtime;
  readonly #known: KnownQuota;
  readonly #acquire: Acquire;
  readonly #pace: CallPace;
  /** The call under way, with its requests. */
  #call: { number: number; waiters: readonly Waiter[] } | undefined;

  constructor(clientId: string, runtime: Runtime, known: KnownQuota, acquire: Acquire) {
    this.#clientId = clientId;
    this.waiting = new WaitingRequests(runtime);
    this.background = new BackgroundCalls(runtime, known, this);
    this.#runtime = runtime;
    this.#known = known;
    this.#acquire = acquire;
    this.#pace = new CallPace(runtime);
  }

  /** The call under way. */
  get current(): object | undefined {
    return this.#call;
  }

  /** How long a call for requests has to wait for earlier calls. */
  get pauseMs(): number {
    return this.#pace.pauseMs(REQUEST_CALLS);
  }

  /** Begins a call in the background, unless one runs or it would have to wait. */
  callSoon(): void {
    if (!this.isBusy(REQUEST_CALLS)) this.#runtime.keepAlive(this.callForRequests());
  }

  /** Calls because of a request, so that timers may renew again. */
  callForRequests(): Promise<void> {
    this.background.allowRenewals();
    return this.call(true);
  }

  /** Decides a request without a call, if there is a ban, a lease or a full window. */
  decideAtOnce(arrivedMs: number): KeyDecision | undefined {
    const known = this.#known;
    const ban = known.ban();
    if (ban !== undefined) return ban;
    if (known.lease.consume(this.#runtime.now(), startOfWindowMs("minute", known.decidedMs)))
      return { admitted: true, by: "lease", nowMs: known.objectMs, windows: known.windows };
    const refusal = known.refuse(arrivedMs);
    if (refusal !== undefined) this.background.reportSoon();
    return refusal;
  }

  /** Decides the requests that may wait for at most `leftMs`. */
  decideOverdue(leftMs: number): void {
    const overdue = this.waiting.overdue(leftMs);
    if (overdue.length > 0) this.#decide(overdue, tooLate());
  }

  giveUp(): void {
    this.#decide(this.waiting.overdue(0), tooLate());
  }

  /** Whether a call is under way or has to wait, so that at most `calls` begin in a second. */
  isBusy(calls: number): boolean {
    return this.#call !== undefined || this.#pace.pauseMs(calls) > 0;
  }

  /** Calls the object to count all waiting requests, to report, and perhaps to get a lease. */
  async call(wantsLease: boolean): Promise<void> {
    const { waiting } = this;
    const known = this.#known;
    // A request with less time left would soon make the isolate give up the whole call.
    this.decideOverdue(MIN_CALL_MS);
    const sentMs = this.#runtime.now();
    const secret = waiting.all.find((each) => each.secret !== undefined)?.secret;
    const waiters = waiting.all.filter((each) => each.secret === undefined || each.secret === secret);
    const { arrivedMs = sentMs } = waiters[0] ?? {};
    const call = { number: known.local.newNumber(), waiters };
    const request: AcquireRequest = {
      client: this.#clientId,
      number: call.number,
      requests: waiters.length,
      arrivedMs: known.arrivedMs(arrivedMs),
      // Set by `prepare`.
      waitedMs: 0,
      // An arrival is recorded once its secret is known to be valid. If it is not, the object ignores the rate.
      recent: known.lease.recent(sentMs) + waiting.withSecret(secret).length,
      wantsLease,
      decisions: known.local.decisions,
      ...(secret !== undefined && { secret }),
      ...(known.lease.report && { lease: known.lease.report }),
    };
    this.#call = call;
    this.#pace.recordCall(sentMs);
    const maxMs = Math.min(MAX_WAIT_MS, ...waiters.slice(0, 1).map((each) => waiting.leftMs(each)));
    const prepare = () => Object.assign(request, { waitedMs: Math.max(0, this.#runtime.now() - arrivedMs) });
    let answer: AcquireAnswer;
    try {
      answer = await this.#acquire(prepare, maxMs, waiters);
    } catch (failure) {
      if (this.#call === call) this.#fail(failure, maxMs, secret);
      return;
    }
    // Its requests have been decided meanwhile.
    if (this.#call !== call) return;
    this.#call = undefined;
    if (!this.#introduce(answer, secret)) return;
    known.local.acknowledge(request.decisions);
    if (answer.result === undefined) this.#decideAll(new Error("the key has been deleted"));
    else this.#apply(answer.result, request.lease, waiters, sentMs);
  }

  /** Applies the result of the call that was sent at `sentMs` with this report and for these requests. */
  #apply(
    result: AcquireResult,
    reported: AcquireRequest["lease"],
    waiters: readonly Waiter[],
    sentMs: number,
  ): void {
    const known = this.#known;
    known.store(result, sentMs);
    const lease = known.lease.apply(reported, result.lease, sentMs, this.#runtime.now());
    if (lease !== undefined) this.#runtime.keepAlive(this.background.renewOrEnd(lease));
    this.waiting.settle(waiters, { ...result, by: "object", windows: known.adjust(result.windows) });
    this.waiting.decideEach(({ arrivedMs }) => this.decideAtOnce(arrivedMs));
    const patienceMs = this.waiting.all.map((each) => this.waiting.leftMs(each) - MIN_CALL_MS);
    this.#pace.pauseAfter(result, sentMs, patienceMs);
  }

  /** Hands an answer to the requests with the secret that it tells of. Returns whether the call has counted its requests. */
  #introduce(answer: AcquireAnswer, secret: string | undefined): boolean {
    const introduced = this.waiting.withSecret(secret);
    for (const each of introduced) each.answer = answer;
    if (introduced.length > 0 && answer.result === undefined) {
      // The others are counted by the next call.
      this.waiting.remove(introduced);
      return false;
    }
    for (const each of introduced) {
      each.secret = undefined;
      this.#known.lease.recordArrival(this.#runtime.now());
    }
    return true;
  }

  /** Decides requests of a call that has failed after at most `maxMs`. */
  #fail(failure: unknown, maxMs: number, secret: string | undefined): void {
    const isOverdue = failure instanceof DeadlineExceeded && maxMs < CALL_DEADLINE_MS;
    // The record does not tell of this secret; the others are sent again.
    if (secret !== undefined && failure instanceof DatabaseUnavailable)
      this.#decide(this.waiting.withSecret(secret), failure);
    else if (isOverdue) this.#decide(this.waiting.overdue(0), failure);
    else this.#decideAll(failure);
  }

  /** Decides all waiting requests without the object, because it can't be reached: the next call would probably fail too. */
  #decideAll(failure: unknown): void {
    this.#known.forgetLeases();
    this.#decide(this.waiting.all, failure);
  }

  /**
   * Decides requests without the object. A call under way is given up: the decision about its requests replaces what it was
   * charged, and those without a decision are sent again.
   */
  #decide(overdue: readonly Waiter[], failure: unknown): void {
    const { number, waiters = [] } = this.#call ?? {};
    this.#call = undefined;
    const decided = overdue.filter(({ secret }) => secret === undefined);
    this.waiting.fail(
      overdue.filter(({ secret }) => secret !== undefined),
      failure,
    );
    const sent = new Set(waiters);
    const inCall = decided.filter((each) => sent.has(each));
    const others = decided.filter((each) => !sent.has(each));
    const settle = (part: readonly Waiter[], call?: number) =>
      this.waiting.settle(part, this.#known.decide(part.length, call), failure);
    if (sent.size > 0) settle(inCall, number);
    if (others.length > 0) settle(others);
    this.background.reportSoon();
  }
}

function tooLate(): DeadlineExceeded {
  return new DeadlineExceeded("the limiter", MAX_WAIT_MS);
}
