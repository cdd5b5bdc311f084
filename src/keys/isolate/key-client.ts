// An isolate's client of one key's object. It holds the record, and decides requests from a lease, refuses them by itself while a window
// is full, or calls the object (protocol.ts). Only one call that counts runs at a time; requests that arrive meanwhile wait, and the next
// call counts all of them. So a burst costs one or two calls.

import { DatabaseUnavailable } from "../../d1/statements.ts";
import { randomBase62 } from "../../lib/base62.ts";
import type { Runtime } from "../../lib/runtime.ts";
import type { KeyDecision } from "../../rate-limit/windows.ts";
import {
  type AcquireAnswer,
  CLIENT_ID_LENGTH,
  type NoRecord,
  type RecordAnswer,
  type Status,
  type UsableRecord,
  type UsageAnswer,
} from "../protocol.ts";
import type { KeyRecord } from "../record.ts";
import { callObject } from "./call-object.ts";
import type { KeyRequest } from "./caller.ts";
import { CountingCalls, MIN_CALL_MS } from "./counting-calls.ts";
import { HeldRecord } from "./held-record.ts";
import { KnownQuota } from "./known-quota.ts";
import { leftMs, MAX_INTRODUCTION_MS, unavailable, type Waiter } from "./waiting-requests.ts";

/** A new stub of a key's object. */
export type KeyObject = ReturnType<Env["API_KEYS"]["getByName"]>;

export class KeyClient {
  readonly id = randomBase62(CLIENT_ID_LENGTH);
  readonly known: KnownQuota;
  readonly #runtime: Runtime;
  readonly #newStub: () => KeyObject;
  readonly #record = new HeldRecord();
  readonly #calls: CountingCalls;

  constructor(runtime: Runtime, newStub: () => KeyObject) {
    this.known = new KnownQuota(runtime);
    this.#runtime = runtime;
    this.#newStub = newStub;
    this.#calls = new CountingCalls(this.id, runtime, this.known, (prepare, maxMs, waiters) =>
      this.#ask<AcquireAnswer>((object) => object.acquire(prepare()), maxMs, waiters),
    );
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

  /** Counts a request with a valid secret. Needs a record. */
  async acquire(request: KeyRequest): Promise<KeyDecision> {
    const { arrivedMs, timing } = request;
    const nowMs = this.#runtime.now();
    const { lease } = this.known;
    lease.recordArrival(nowMs);
    const decision = this.#calls.decideAtOnce(arrivedMs);
    const isLeaseDue = decision?.admitted && lease.isDue(nowMs, this.#calls.background.renews);
    if (isLeaseDue || (decision !== undefined && this.#record.isDue(nowMs))) this.#calls.callSoon();
    if (decision !== undefined) return this.known.show(decision);
    const waiter = { arrivedMs, timing };
    this.#calls.waiting.add(waiter);
    return this.#awaitDecision(waiter, request);
  }

  /**
   * Asks the object about a secret that the isolate can't judge, and counts the request with the same call if the secret is valid: then
   * there is a `decision`. Throws ObjectUnavailable, or DatabaseUnavailable if the object has no record.
   */
  async introduce(request: KeyRequest) {
    const { credential, arrivedMs, timing } = request;
    const waiter: Waiter = { arrivedMs, timing, secret: credential.hash };
    this.#calls.waiting.add(waiter);
    await this.#drive(waiter, () => waiter.answer !== undefined || waiter.failure !== undefined);
    const { answer, failure } = waiter;
    if (answer === undefined) throw failure;
    if (waiter.secret !== undefined) return { answer };
    return { answer, decision: this.#awaitDecision(waiter, request) };
  }

  /** Whether `introduce` is asking about this secret. Then another request with it costs no call of its own. */
  isIntroducing(secret: string): boolean {
    return this.#calls.waiting.withSecret(secret).length > 0;
  }

  /** Asks the object about a secret, and counts nothing. Throws like `introduce`. */
  async identify(request: KeyRequest): Promise<RecordAnswer> {
    const maxMs = leftMs(request.arrivedMs, this.#runtime.now(), MAX_INTRODUCTION_MS);
    const identify = (object: KeyObject) => object.identify(request.credential.hash);
    return this.#ask<RecordAnswer>(identify, maxMs, [request]).catch((failure) => {
      throw unavailable(failure);
    });
  }

  /** Decides a request that could not ask the object about its secret, with a record from the primary. */
  decideAlone(): KeyDecision {
    const decision = this.#calls.decideAtOnce(this.#runtime.now());
    if (decision !== undefined) return this.known.show(decision);
    const waiter: Waiter = { arrivedMs: this.#runtime.now() };
    this.#calls.waiting.settle([waiter], this.known.decide(1));
    this.#calls.background.reportSoon();
    return this.#shown(waiter);
  }

  async #awaitDecision(waiter: Waiter, { onObjectFailure }: KeyRequest): Promise<KeyDecision> {
    await this.#drive(waiter, () => waiter.decision !== undefined);
    if (waiter.failure !== undefined) onObjectFailure(waiter.failure);
    return this.#shown(waiter);
  }

  #shown({ decision }: Waiter): KeyDecision {
    if (decision === undefined) throw new Error("a request has no decision");
    return this.known.show(decision);
  }

  /** Asks the object for the key's usage. Returns the totals of its days. Throws what the call throws. */
  async readUsage(request: KeyRequest) {
    const sentMs = this.#runtime.now();
    const maxMs = leftMs(request.arrivedMs, sentMs);
    const { usage } = await this.#ask<UsageAnswer>((object) => object.usage(), maxMs, [request]);
    if (usage === undefined) throw new Error("the key does not exist");
    this.learnStatus(usage.status, sentMs);
    return usage.days;
  }

  /**
   * Calls the object for requests, and takes the record of its answer. Throws DatabaseUnavailable if it has none, or what the call
   * throws.
   */
  async #ask<Answer extends RecordAnswer>(
    call: (object: KeyObject) => PromiseLike<Answer | NoRecord>,
    maxMs: number,
    requests: readonly Pick<KeyRequest, "timing">[],
  ): Promise<Answer> {
    const sentMs = this.#runtime.now();
    const record = (recordMs?: number) => {
      for (const { timing } of requests) timing?.hop("object", sentMs, recordMs);
    };
    const answer = await callObject(this.#runtime, maxMs, async () => call(this.#newStub())).catch(
      (failure) => {
        record();
        throw failure;
      },
    );
    record(answer.recordMs);
    if ("unavailable" in answer) throw new DatabaseUnavailable(answer.unavailable, false);
    this.learn(answer, sentMs);
    return answer;
  }

  /** Stores a status that was asked for at `sentMs`, unless a call or a report is on its way that it may not include. */
  learnStatus(status: Status, sentMs: number): void {
    const isNewMinute = status.windows.minute.startMs > this.known.minuteMs;
    const isComplete = this.#calls.current === undefined && this.known.local.decisions.length === 0;
    if (isNewMinute || isComplete) this.known.store(status, sentMs);
  }

  /** Waits until `isDone`, also if the client leaves: others may wait for its call, and the request must not be counted later. */
  #drive(waiter: Waiter, isDone: () => boolean): Promise<void> {
    const driving = this.#driveOn(waiter, isDone);
    this.#runtime.keepAlive(driving);
    return driving;
  }

  /** Whenever no call is running, calls for all waiting requests. */
  async #driveOn(waiter: Waiter, isDone: () => boolean): Promise<void> {
    const calls = this.#calls;
    while (!isDone()) {
      const leftMs = calls.waiting.leftMs(waiter);
      const { current, pauseMs } = calls;
      const isReady = current === undefined && pauseMs === 0;
      if (leftMs <= (isReady ? MIN_CALL_MS : 0)) calls.decideOverdue(leftMs);
      else if (isReady) await calls.callForRequests();
      else if (current === undefined) await this.#runtime.until(isDone, Math.min(pauseMs, leftMs));
      else await this.#runtime.until(() => isDone() || calls.current === undefined, leftMs);
    }
  }
}
