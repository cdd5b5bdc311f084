// An isolate's client of one key's object. It holds the record, and decides requests from a lease, refuses them by itself while a window
// is full, or calls the object (protocol.ts). Only one call that counts runs at a time; requests that arrive meanwhile wait, and the next
// call counts all of them. So a burst costs one or two calls.

import { DatabaseUnavailable } from "../../d1/statements.ts";
import { randomBase62 } from "../../lib/base62.ts";
import { DeadlineExceeded } from "../../lib/deadline.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { type Count, type KeyDecision, mapWindows, startOfWindowMs } from "../../rate-limit/windows.ts";
import {
  type AcquireAnswer,
  type AcquireRequest,
  type AcquireResult,
  CLIENT_ID_LENGTH,
  LATE_MS,
  MAX_WAIT_MS,
  type NoRecord,
  type RecordAnswer,
  type Status,
  type UsableRecord,
  type UsageAnswer,
} from "../protocol.ts";
import type { KeyRecord } from "../record.ts";
import { CALL_DEADLINE_MS, callObject } from "./call-object.ts";
import { HeldRecord } from "./held-record.ts";
import { fullWindows, KnownQuota } from "./known-quota.ts";

/** The most calls of one isolate for one key in a second, without retries. More: shorter waits at the end of a window; less: a calmer object. */
const MAX_CALLS = 5;
/** The last of these is for reports, for which other isolates may wait. */
const REQUEST_CALLS = MAX_CALLS - 1;
const SECOND_MS = 1_000;
/** The longest wait for the answer about a secret that the isolate can't judge. Longer: less time to ask the primary instead. */
const MAX_INTRODUCTION_MS = 4_000;
/** A request that may wait for less is decided without the object. Longer: fewer calls in vain; shorter: more patience. */
const MIN_CALL_MS = 400;
/** The longest pause after an undecided response. Longer: longer waits; shorter: more calls if the holder of a lease has ended. */
const UNDECIDED_PAUSE_MS = 400;
/** A pause is up to so much longer, so that isolates do not ask at the same time. */
const SPREAD = 0.25;
/** A timer belongs to a request, which Cloudflare ends 30 s after its response; then another request has to renew the lease. */
const MAX_RENEWALS = 5;
/** A report that takes longer was cancelled together with its request. */
const MAX_REPORT_MS = 4 * MAX_WAIT_MS;

/** A new stub of a key's object. */
export type KeyObject = ReturnType<Env["API_KEYS"]["getByName"]>;
/** Called with the reason if a request was decided locally. */
export type OnLocal = (error: unknown) => void;

/**
 * A request that waits for its decision. `failure` is set if it was decided locally. `secret` is the hash of a secret that the isolate
 * can't judge; such a request is not decided locally.
 */
type Waiter = {
  arrivedMs: number;
  secret?: string | undefined;
  answer?: RecordAnswer;
  decision?: KeyDecision | undefined;
  failure?: unknown;
};

/** The object could not be asked about a secret. */
export class ObjectUnavailable extends Error {
  constructor(cause: unknown) {
    super("the key's object can't be reached", { cause });
    this.name = "ObjectUnavailable";
  }
}

export class KeyClient {
  readonly id = randomBase62(CLIENT_ID_LENGTH);
  readonly #runtime: Runtime;
  readonly #newStub: () => KeyObject;
  readonly known: KnownQuota;
  readonly #record = new HeldRecord();
  #waiters: Waiter[] = [];
  /** The call under way, with its requests. */
  #call: { number: number; waiters: readonly Waiter[] } | undefined;
  /** The beginnings of the last calls, and the end of the pause after an undecided response (Unix time, by this clock). */
  #calledMs: number[] = [];
  #pausedUntilMs = 0;
  /** The number of renewals by a timer in a row. */
  #renewals = 0;
  #reportingSinceMs = Number.NEGATIVE_INFINITY;

  constructor(runtime: Runtime, newStub: () => KeyObject) {
    this.#runtime = runtime;
    this.#newStub = newStub;
    this.known = new KnownQuota(runtime);
  }

  /** The record, if the isolate has one that it may use. */
  get record(): KeyRecord | undefined {
    return this.#record.at(this.#runtime.now());
  }

  /** See HeldRecord. */
  hadSecret(secret: string): boolean {
    return this.#record.hadSecret(secret);
  }

  /** Takes the record of an answer that was asked for at `sentMs` (Unix time). */
  learn(answer: UsableRecord, sentMs: number): void {
    const isTaken = this.#record.take(answer, sentMs, this.#runtime.now());
    if (isTaken && answer.record !== null) this.known.learn(answer.record);
  }

  /** Counts a request that arrived at `arrivedMs` (Unix time) with a valid secret. Needs a record. */
  async acquire(arrivedMs: number, onLocal: OnLocal): Promise<KeyDecision> {
    const nowMs = this.#runtime.now();
    const { lease } = this.known;
    lease.recordArrival(nowMs);
    const decision = this.#decideAtOnce(arrivedMs);
    const isLeaseDue = decision?.admitted && lease.isDue(nowMs, this.#renewals < MAX_RENEWALS);
    const isDue = isLeaseDue || (decision !== undefined && this.#record.isDue(nowMs));
    if (isDue && !this.#isBusy(REQUEST_CALLS)) {
      this.#renewals = 0;
      this.#runtime.keepAlive(this.#callForBatch());
    }
    if (decision !== undefined) return this.known.show(decision);
    const waiter = { arrivedMs };
    this.#enqueue(waiter);
    return this.#awaitDecision(waiter, onLocal);
  }

  /**
   * Asks the object about a secret that the isolate can't judge, and counts the request with the same call if the secret is valid: then
   * there is a `decision`. Throws ObjectUnavailable, or DatabaseUnavailable if the object has no record.
   */
  async introduce(secret: string, arrivedMs: number, onLocal: OnLocal) {
    const waiter: Waiter = { arrivedMs, secret };
    this.#enqueue(waiter);
    await this.#drive(waiter, () => waiter.answer !== undefined || waiter.failure !== undefined);
    const { answer, failure } = waiter;
    if (answer === undefined) throw failure;
    if (waiter.secret !== undefined) return { answer };
    return { answer, decision: this.#awaitDecision(waiter, onLocal) };
  }

  /** Whether `introduce` is asking about this secret. Then another request with it costs no call of its own. */
  isIntroducing(secret: string): boolean {
    return this.#waiters.some((each) => each.secret === secret);
  }

  /** Asks the object about a secret, and counts nothing. Throws like `introduce`. */
  async identify(secret: string, arrivedMs: number): Promise<RecordAnswer> {
    return this.#ask((object) => object.identify(secret), this.#leftMs({ arrivedMs, secret })).catch(
      (failure) => {
        throw failure instanceof DatabaseUnavailable ? failure : new ObjectUnavailable(failure);
      },
    );
  }

  /** Decides a request that could not ask the object about its secret, with a record from the primary. */
  decideAlone(): KeyDecision {
    const known = this.#decideAtOnce(this.#runtime.now());
    if (known !== undefined) return this.known.show(known);
    const waiter: Waiter = { arrivedMs: this.#runtime.now() };
    this.#settle([waiter], this.known.decide(1));
    this.#reportSoon();
    return this.#shown(waiter);
  }

  async #awaitDecision(waiter: Waiter, onLocal: OnLocal): Promise<KeyDecision> {
    await this.#drive(waiter, () => waiter.decision !== undefined);
    if (waiter.failure !== undefined) onLocal(waiter.failure);
    return this.#shown(waiter);
  }

  #shown({ decision }: Waiter): KeyDecision {
    if (decision === undefined) throw new Error("a request has no decision");
    return this.known.show(decision);
  }

  /** Decides a request without a call, if there is a ban, a lease or a full window. */
  #decideAtOnce(arrivedMs: number): KeyDecision | undefined {
    const { known } = this;
    const ban = known.ban();
    if (ban !== undefined) return ban;
    if (known.lease.consume(this.#runtime.now(), startOfWindowMs("minute", known.decidedMs)))
      return { admitted: true, nowMs: known.objectMs, windows: known.windows };
    const refusal = known.refuse(arrivedMs);
    if (refusal !== undefined) this.#reportSoon();
    return refusal;
  }

  /** Asks the object for the key's usage, for at most `maxMs`. Returns the totals of its days. Throws what the call throws. */
  async usage(maxMs: number) {
    const sentMs = this.#runtime.now();
    const { usage } = await this.#ask<UsageAnswer>((object) => object.usage(), maxMs);
    if (usage === undefined) throw new Error("the key does not exist");
    const { status, pastDays } = usage;
    this.learnStatus(status, sentMs);
    const { startMs, used, refused } = status.windows.day;
    return [...pastDays, { startMs, admitted: used, refused }];
  }

  /** Calls the object, and takes the record of its answer. Throws DatabaseUnavailable if it has none, or what the call throws. */
  async #ask<Answer extends RecordAnswer>(
    call: (object: KeyObject) => PromiseLike<Answer | NoRecord>,
    maxMs: number,
  ): Promise<Answer> {
    const sentMs = this.#runtime.now();
    const answer = await callObject(this.#runtime, maxMs, async () => call(this.#newStub()));
    if ("unavailable" in answer) throw new DatabaseUnavailable(answer.unavailable, false);
    this.learn(answer, sentMs);
    return answer;
  }

  /** Stores a status that was asked for at `sentMs`, unless a call or a report is on its way that it may not include. */
  learnStatus(status: Status, sentMs: number): void {
    const isNewMinute = status.windows.minute.startMs > this.known.minuteMs;
    const isComplete = this.#call === undefined && this.known.decisions.length === 0;
    if (isNewMinute || isComplete) this.known.store(status, sentMs);
  }

  /** Keeps the order of arrival, although a request whose secret was unknown comes late. */
  #enqueue(waiter: Waiter): void {
    const before = this.#waiters.findLastIndex((each) => each.arrivedMs <= waiter.arrivedMs);
    this.#waiters.splice(before + 1, 0, waiter);
  }

  /** Waits until `isDone`, also if the client leaves: others may wait for its call, and the request must not be counted later. */
  #drive(waiter: Waiter, isDone: () => boolean): Promise<void> {
    const driving = this.#driveOn(waiter, isDone);
    this.#runtime.keepAlive(driving);
    return driving;
  }

  /** Whenever no call is running, calls for all waiting requests. */
  async #driveOn(waiter: Waiter, isDone: () => boolean): Promise<void> {
    while (!isDone()) {
      const leftMs = this.#leftMs(waiter);
      const pauseMs = this.#pauseMs(REQUEST_CALLS);
      const isReady = this.#call === undefined && pauseMs === 0;
      if (leftMs <= (isReady ? MIN_CALL_MS : 0)) this.#decide(this.#overdue(leftMs), tooLate());
      else if (isReady) {
        this.#renewals = 0;
        await this.#callForBatch();
      } else if (this.#call === undefined) await this.#runtime.until(isDone, Math.min(pauseMs, leftMs));
      else await this.#runtime.until(() => isDone() || this.#call === undefined, leftMs);
    }
  }

  /** How long a request may wait. After the clock steps back, it waits anew. */
  #leftMs(waiter: Waiter): number {
    const nowMs = this.#runtime.now();
    const maxMs = waiter.secret === undefined ? MAX_WAIT_MS : MAX_INTRODUCTION_MS;
    waiter.arrivedMs = Math.min(waiter.arrivedMs, nowMs);
    return Math.max(0, waiter.arrivedMs + maxMs - nowMs);
  }

  /** Whether a call has to wait that must be one of the first `calls` in a second. */
  #isBusy(calls: number): boolean {
    return this.#call !== undefined || this.#pauseMs(calls) > 0;
  }

  #pauseMs(calls: number): number {
    const nowMs = this.#runtime.now();
    const first = this.#calledMs.at(-calls);
    const pacedMs = first === undefined ? nowMs : first + SECOND_MS;
    const leftMs = Math.max(pacedMs, this.#pausedUntilMs) - nowMs;
    // More is left only after the clock has stepped back.
    return leftMs <= SECOND_MS ? Math.max(0, leftMs) : 0;
  }

  /** Calls the object to count all waiting requests, to report, and perhaps to get a lease. */
  async #callForBatch(wantsLease = true): Promise<void> {
    const { known } = this;
    // Otherwise the call would soon be given up for all requests, because of these.
    const overdue = this.#overdue(MIN_CALL_MS);
    if (overdue.length > 0) this.#decide(overdue, tooLate());
    const sentMs = this.#runtime.now();
    const secret = this.#waiters.find((each) => each.secret !== undefined)?.secret;
    const waiters = this.#waiters.filter((each) => each.secret === undefined || each.secret === secret);
    const { arrivedMs = sentMs } = waiters[0] ?? {};
    const call = { number: known.newNumber(), waiters };
    const request: AcquireRequest = {
      client: this.id,
      number: call.number,
      requests: waiters.length,
      arrivedMs: known.arrivedMs(arrivedMs),
      // Set when it is sent.
      waitedMs: 0,
      // An arrival is recorded once its secret is known to be valid. If it is not, the object ignores the rate.
      recent: known.lease.recent(sentMs) + this.#waitersWith(secret).length,
      wantsLease,
      decisions: known.decisions,
      ...(secret !== undefined && { secret }),
      ...(known.lease.report && { lease: known.lease.report }),
    };
    this.#call = call;
    this.#calledMs = [...this.#calledMs, sentMs].slice(-MAX_CALLS);
    const maxMs = Math.min(MAX_WAIT_MS, ...waiters.slice(0, 1).map((each) => this.#leftMs(each)));
    let answer: AcquireAnswer;
    try {
      answer = await this.#ask<AcquireAnswer>((object) => {
        request.waitedMs = Math.max(0, this.#runtime.now() - arrivedMs);
        return object.acquire(request);
      }, maxMs);
    } catch (failure) {
      if (this.#call !== call) return;
      // The record does not tell of this secret; the others are sent again.
      if (secret !== undefined && failure instanceof DatabaseUnavailable)
        return this.#decide(this.#waitersWith(secret), failure);
      const isOverdue = failure instanceof DeadlineExceeded && maxMs < CALL_DEADLINE_MS;
      if (isOverdue) this.#decide(this.#overdue(0), failure);
      else this.#decideLocally(failure);
      return;
    }
    // Its requests have been decided meanwhile.
    if (this.#call !== call) return;
    this.#call = undefined;
    const { result } = answer;
    const introduced = this.#waitersWith(secret);
    for (const each of introduced) each.answer = answer;
    if (introduced.length > 0 && result === undefined) {
      // The others are counted by the next call.
      this.#waiters = this.#waiters.filter((each) => !introduced.includes(each));
      return;
    }
    for (const each of introduced) {
      each.secret = undefined;
      known.lease.recordArrival(this.#runtime.now());
    }
    known.acknowledge(request.decisions);
    if (result === undefined) return this.#decideLocally(new Error("the key has been deleted"));
    known.store(result, sentMs);
    const lease = known.lease.apply(request.lease, result.lease, sentMs, this.#runtime.now());
    if (lease !== undefined) this.#runtime.keepAlive(this.#renewOrEnd(lease));
    this.#settle(waiters, { ...result, windows: known.adjust(result.windows) });
    for (const waiter of this.#waiters.filter(({ secret }) => secret === undefined))
      waiter.decision = this.#decideAtOnce(waiter.arrivedMs);
    this.#waiters = this.#waiters.filter(({ decision }) => decision === undefined);
    this.#pause(result, sentMs);
  }

  /** The requests whose secret the isolate can't judge, with this one. */
  #waitersWith(secret: string | undefined): Waiter[] {
    return secret === undefined ? [] : this.#waiters.filter((each) => each.secret === secret);
  }

  /** When a lease's time comes to an end, renews it if requests still come. Otherwise reports its end. */
  async #renewOrEnd(lease: NonNullable<ReturnType<KnownQuota["lease"]["apply"]>>): Promise<void> {
    const nowMs = this.#runtime.now();
    const end = this.#runtime.wait(lease.untilMs - nowMs);
    await this.#runtime.wait(lease.renewMs - nowMs);
    const isInUse = this.#renewals < MAX_RENEWALS && this.known.lease.isInUse(lease, this.#runtime.now());
    if (isInUse && !this.#isBusy(REQUEST_CALLS)) {
      this.#renewals += 1;
      await this.#callForBatch();
    }
    await end;
    if (!this.known.lease.end(lease)) return;
    // In the next minute, the next request calls anyway.
    if (this.known.isMinuteOver(LATE_MS)) this.#reportSoon();
    else await this.#report(0);
  }

  /**
   * After an undecided response, sets a pause: until the next lease has ended, longer if that or the object is far away, shorter if a
   * request would have no time left.
   */
  #pause({ nowMs: madeMs, retryMs }: AcquireResult, sentMs: number): void {
    if (retryMs === undefined) return;
    const nowMs = this.#runtime.now();
    const callMs = Math.max(0, nowMs - sentMs);
    const untilEndMs = retryMs + LATE_MS - madeMs - callMs;
    const isSoon = untilEndMs < UNDECIDED_PAUSE_MS;
    const random = this.#runtime.random();
    const pauseMs = (isSoon ? untilEndMs : Math.max(UNDECIDED_PAUSE_MS, callMs)) * (1 + SPREAD * random);
    // A request that has time for only one more call asks as late as it can.
    const reserveMs = LATE_MS * (1 + random);
    const leftMs = this.#waiters.map((each) => this.#leftMs(each) - MIN_CALL_MS).find((ms) => ms > reserveMs);
    const isLast = leftMs !== undefined && pauseMs + callMs + reserveMs > leftMs;
    this.#pausedUntilMs = nowMs + Math.min(SECOND_MS, isLast ? leftMs - reserveMs : pauseMs);
  }

  /** Gives the requests of a batch their decisions. Undecided requests get none. */
  #settle(
    waiters: readonly Waiter[],
    result: Omit<AcquireResult, "revision" | "firstRefusalMs">,
    failure?: unknown,
  ): void {
    const { admitted, refused, nowMs, windows, leased, bannedUntilMs } = result;
    const full = fullWindows(windows, leased);
    const refusal = { admitted: false, nowMs, windows: full, ...(bannedUntilMs && { bannedUntilMs }) };
    for (const [index, waiter] of waiters.entries()) {
      if (index >= admitted && index < waiters.length - refused) continue;
      const later = admitted - 1 - index;
      // The result of a retry may belong to a new window, in which nothing is used.
      const before = <Each extends Count>(each: Each) => ({ ...each, used: Math.max(0, each.used - later) });
      const admission = () => ({ admitted: true, nowMs, windows: mapWindows(windows, before) });
      waiter.decision = later < 0 ? refusal : admission();
      waiter.failure = failure;
    }
    this.#waiters = this.#waiters.filter(({ decision }) => decision === undefined);
  }

  /** Decides all waiting requests without the object, because it can't be reached: the next call would probably fail too. */
  #decideLocally(failure: unknown): void {
    this.known.forgetLeases();
    this.#decide(this.#waiters, failure);
  }

  /** The requests that may wait for at most `leftMs`. */
  #overdue(leftMs: number): Waiter[] {
    return this.#waiters.filter((each) => this.#leftMs(each) <= leftMs);
  }

  /**
   * Decides requests without the object. A call under way is given up: the decision about its requests replaces what it was
   * charged, and those without a decision are sent again.
   */
  #decide(overdue: readonly Waiter[], failure: unknown): void {
    const { number, waiters = [] } = this.#call ?? {};
    this.#call = undefined;
    const decided = overdue.filter(({ secret }) => secret === undefined);
    for (const newcomer of overdue.filter(({ secret }) => secret !== undefined))
      newcomer.failure = failure instanceof DatabaseUnavailable ? failure : new ObjectUnavailable(failure);
    this.#waiters = this.#waiters.filter((each) => each.failure === undefined);
    const sent = new Set(waiters);
    const inCall = decided.filter((each) => sent.has(each));
    const others = decided.filter((each) => !sent.has(each));
    const settle = (part: readonly Waiter[], call?: number) =>
      this.#settle(part, this.known.decide(part.length, call), failure);
    if (sent.size > 0) settle(inCall, number);
    if (others.length > 0) settle(others);
    this.#reportSoon();
  }

  /** Reports in the background, once a second. */
  #reportSoon(): void {
    const nowMs = this.#runtime.now();
    if (Math.abs(nowMs - this.#reportingSinceMs) < MAX_REPORT_MS) return;
    this.#reportingSinceMs = nowMs;
    this.#runtime.keepAlive(this.#report(SECOND_MS));
  }

  /** Reports after a pause what the object does not know yet. */
  async #report(pauseMs: number): Promise<void> {
    await this.#runtime.wait(pauseMs);
    const call = this.#call;
    await this.#runtime.until(() => !this.#isBusy(MAX_CALLS), MAX_WAIT_MS);
    // It was cancelled together with its request.
    if (call !== undefined && call === this.#call) this.#decide(this.#overdue(0), tooLate());
    // What follows from now on is in the next report.
    if (pauseMs > 0) this.#reportingSinceMs = Number.NEGATIVE_INFINITY;
    const { decisions, lease } = this.known;
    if (decisions.length === 0 && !lease.isEnded) return;
    if (this.#isBusy(MAX_CALLS)) this.#reportSoon();
    else await this.#callForBatch(this.#waiters.length > 0);
  }
}

function tooLate(): DeadlineExceeded {
  return new DeadlineExceeded("the limiter", MAX_WAIT_MS);
}
