// An isolate's calls of one key's object: everything that waits for it, or for the primary in its place. The state of the key has the rules
// (key-state.ts). One call that counts runs at a time; requests that arrive meanwhile wait, and the next call counts all of them. So a burst
// costs one or two calls.

import { randomBase62 } from "../../lib/base62.ts";
import { DeadlineExceeded } from "../../lib/deadline.ts";
import { type Loan, leftOf, lend, OVER } from "../../lib/loan.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { LimiterUnavailable } from "../errors.ts";
import { type KeyPolicy, loadKey } from "../policy.ts";
import {
  type AcquireRequest,
  ISOLATE_ID_LENGTH,
  KEY_MS,
  type KeyAnswer,
  MAX_WAIT_MS,
  type NoKey,
} from "../protocol.ts";
import { type Known, readAcquireAnswer, readKeyAnswer, readUsageAnswer } from "../readers.ts";
import type { Decision } from "../windows.ts";
import { callObject } from "./call-object.ts";
import type { Credential, KeyRequest } from "./caller.ts";
import { type HeldLease, KeyState, MAX_ANSWER_MS, patienceMs, SECOND_MS, type Waiter } from "./key-state.ts";

/** How long neither the object nor the primary is asked about a key again after the primary, in place of the object, has hung. */
const FAILURE_MS = 5_000;
/** A primary that had less time than this may not hang. */
const HANGING_MS = 1_000;

/** A stub of a key's object. Its answers are read as another release may have sent them. */
export interface KeyObject {
  acquire(request: AcquireRequest): PromiseLike<unknown>;
  identify(secret: string): PromiseLike<unknown>;
  usage(): PromiseLike<unknown>;
}

export interface KeysOptions<Key extends object, Problem extends string = string> {
  policy: KeyPolicy<Key, Problem>;
  /** The clock and timers. */
  runtime: Runtime;
  /** A new stub of a key's object. */
  objectOf(id: string): KeyObject;
  /** Reads a key from the primary. */
  load(id: string): Promise<Key | null>;
  /** The key and the hash of the secret that a bearer token is; undefined if it is none. Not asked of a token longer than MAX_TOKEN_LENGTH. Pure: the result is kept. */
  credentialOf(token: string): Credential | undefined;
}

/** What the object has said of a secret, with the decision about the request if its call has counted it. */
type Introduced<Key> = KeyAnswer<Key> & { decision?: Promise<Decision> };

/** What the object, or else the primary, has answered about a secret to a question of `sentMs` (Unix time). */
export type Answered<Key> = Introduced<Key> & { sentMs: number; isOfPrimary?: boolean };

export class KeyCalls<Key extends object> {
  readonly state: KeyState<Key>;
  readonly #id: string;
  readonly #options: KeysOptions<Key>;
  readonly #runtime: Runtime;
  /** That of the primary. */
  #failure: Loan & { error?: unknown } = OVER;

  constructor(id: string, options: KeysOptions<Key>) {
    this.#id = id;
    this.#options = options;
    this.#runtime = options.runtime;
    this.state = new KeyState(options.policy, randomBase62(ISOLATE_ID_LENGTH), options.runtime.random);
  }

  /** Counts a request with a valid secret. Needs a key. `isAlone`: decides it without the object. */
  async acquire(request: KeyRequest, isAlone = false): Promise<Decision> {
    const { arrivedMs, timing } = request;
    const { decision, isDue } = this.state.arrive(this.#runtime.now(), isAlone);
    this.#reportSoon();
    if (isDue) this.#runtime.keepAlive(this.#call("request"));
    if (decision !== undefined) return this.state.show(decision);
    const waiter = { arrivedMs, timing };
    this.state.wait(waiter);
    return this.#awaitDecision(waiter, request);
  }

  /** Looks up a secret that the isolate can't judge, at the object or else the primary. `counts`: the object counts a valid request. */
  async ask(request: KeyRequest, counts: boolean): Promise<Answered<Key>> {
    const sentMs = this.#runtime.now();
    if (leftOf(this.#failure, sentMs) > 0) throw this.#failure.error;
    const asked: Promise<Introduced<Key>> = counts ? this.askAndCount(request) : this.#askIdentity(request);
    return asked.then(
      (each): Answered<Key> => ({ ...each, sentMs }),
      (failure) => this.#askPrimary(request, failure),
    );
  }

  /** Asks the object about a secret, and counts a valid request. Throws LimiterUnavailable if it has no key, or the call's failure. */
  async askAndCount(request: KeyRequest): Promise<Introduced<Key>> {
    const { credential, arrivedMs, timing } = request;
    const waiter: Waiter<Key> = { arrivedMs, timing, secret: credential.hash };
    this.state.wait(waiter);
    await this.#drive(waiter, () => waiter.answer !== undefined || waiter.outcome !== undefined);
    const { answer, secret, outcome } = waiter;
    if (answer === undefined) throw outcome?.failure;
    return secret === undefined ? { ...answer, decision: this.#awaitDecision(waiter, request) } : answer;
  }

  /** Asks the object about a secret, and counts nothing. Throws like `askAndCount`. */
  #askIdentity(request: KeyRequest): Promise<KeyAnswer<Key>> {
    const maxMs = patienceMs(request.arrivedMs, this.#runtime.now(), MAX_ANSWER_MS);
    const identify = (object: KeyObject) => object.identify(request.credential.hash);
    return this.#ask(identify, readKeyAnswer, maxMs, [request], request.credential.hash);
  }

  /** Reads the key from the primary, because the object can't be reached. */
  async #askPrimary(
    { arrivedMs, timing, onObjectFailure }: KeyRequest,
    failure: unknown,
  ): Promise<Answered<Key>> {
    if (failure instanceof LimiterUnavailable) throw failure;
    onObjectFailure(failure);
    const sentMs = this.#runtime.now();
    const maxMs = patienceMs(arrivedMs, sentMs);
    const { policy, load } = this.#options;
    const find = () => loadKey(policy, load, this.#id);
    try {
      const key = await this.#runtime.withDeadline("the database", maxMs, find);
      this.state.learnKey({ key, usableMs: KEY_MS }, sentMs, this.#runtime.now());
      return { key, usableMs: KEY_MS, isNew: true, sentMs, isOfPrimary: true };
    } catch (error) {
      if (error instanceof DeadlineExceeded && maxMs >= HANGING_MS)
        this.#failure = { error, ...lend(this.#runtime.now(), FAILURE_MS) };
      throw new LimiterUnavailable("key", error);
    } finally {
      timing?.hop("keys", sentMs);
    }
  }

  /** Asks the object for the key's usage. Returns the totals of its days. Throws what the call throws. */
  async askUsage(request: KeyRequest) {
    const sentMs = this.#runtime.now();
    const maxMs = patienceMs(request.arrivedMs, sentMs);
    const { usage } = await this.#ask((object) => object.usage(), readUsageAnswer, maxMs, [request]);
    if (usage === undefined) throw new Error("the key does not exist");
    this.state.learnStatus(usage.status, sentMs, this.#runtime.now());
    return usage.days;
  }

  async #awaitDecision(waiter: Waiter<Key>, { onObjectFailure }: KeyRequest): Promise<Decision> {
    await this.#drive(waiter, () => waiter.outcome !== undefined);
    const { decision, failure } = waiter.outcome ?? {};
    if (failure !== undefined) onObjectFailure(failure);
    if (decision === undefined) throw new Error("a request has no decision");
    return this.state.show(decision);
  }

  /** Waits until `isDone`, also if the client leaves: others may wait for its call, and the request must not be counted later. */
  #drive(waiter: Waiter<Key>, isDone: () => boolean): Promise<void> {
    const driving = this.#driveOn(waiter, isDone);
    this.#runtime.keepAlive(driving);
    return driving;
  }

  async #driveOn(waiter: Waiter<Key>, isDone: () => boolean): Promise<void> {
    while (!isDone()) {
      const next = this.state.next(waiter, this.#runtime.now());
      const { call } = this.state;
      const hasEnded = () => call !== undefined && this.state.call === undefined;
      if (next.what === "call") await this.#call("request");
      else if (next.what === "wait") await this.#runtime.until(() => isDone() || hasEnded(), next.ms);
      else this.#reportSoon();
    }
  }

  /** Calls the object: see KeyState.beginCall. */
  async #call(reason: "request" | "report"): Promise<void> {
    const { now } = this.#runtime;
    const call = this.state.beginCall(reason, now());
    this.#reportSoon();
    const answer = await this.#ask(
      (object) => object.acquire(call.request),
      readAcquireAnswer,
      call.maxMs,
      call.waiters,
      call.request.secret,
    ).catch((failure) => void this.state.failCall(call, failure, now()));
    const lease = answer && this.state.endCall(call, answer, now());
    if (lease !== undefined) this.#runtime.keepAlive(this.#endLease(lease));
    this.#reportSoon();
  }

  /** Calls the object for requests, and takes the key of its answer. Throws LimiterUnavailable if it has none, or what the call throws. */
  async #ask<Answer extends KeyAnswer<Key>>(
    call: (object: KeyObject) => PromiseLike<unknown>,
    read: (message: unknown, known: Known<Key>) => Answer | NoKey,
    maxMs: number,
    requests: readonly Pick<KeyRequest, "timing">[],
    secret?: string,
  ): Promise<Answer> {
    const sentMs = this.#runtime.now();
    const callOnce = async () => call(this.#options.objectOf(this.#id));
    let loadMs: number | undefined;
    try {
      const message = await callObject(this.#runtime, maxMs, callOnce);
      const answer = read(message, this.state.knownAt(this.#runtime.now(), secret));
      loadMs = answer.loadMs;
      if ("unavailable" in answer) throw new LimiterUnavailable("key", answer.unavailable);
      this.state.learnKey(answer, sentMs, this.#runtime.now());
      return answer;
    } finally {
      for (const { timing } of requests) timing?.hop("object", sentMs, loadMs);
    }
  }

  /** Ends a lease after its time, unless a call has renewed it, and reports that. */
  async #endLease(lease: HeldLease): Promise<void> {
    const { now, wait } = this.#runtime;
    await wait(lease.untilMs - now());
    if (this.state.endLease(lease, now())) await this.#report(0);
    else this.#reportSoon();
  }

  /** Reports in a second if there is something to report. */
  #reportSoon(): void {
    if (this.state.beginReport(this.#runtime.now())) this.#runtime.keepAlive(this.#report(SECOND_MS));
  }

  /** Reports after a pause what the object does not know yet. */
  async #report(pauseMs: number): Promise<void> {
    const { now, wait, until } = this.#runtime;
    await wait(pauseMs);
    await until(() => this.state.mayReport(now()), MAX_WAIT_MS);
    if (this.state.endReport(pauseMs > 0, now())) await this.#call("report");
    else this.#reportSoon();
  }
}
