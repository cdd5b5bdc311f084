// An isolate's client of one key's object: everything that waits. The state of the key has the rules (key-state.ts). One call that counts runs
// at a time; requests that arrive meanwhile wait, and the next call counts all of them. So a burst costs one or two calls.

import { DatabaseUnavailable } from "../../d1/statements.ts";
import { randomBase62 } from "../../lib/base62.ts";
import type { Runtime } from "../../lib/runtime.ts";
import type { KeyDecision } from "../../rate-limit/windows.ts";
import {
  type AcquireAnswer,
  CLIENT_ID_LENGTH,
  MAX_WAIT_MS,
  type NoRecord,
  type RecordAnswer,
  type UsageAnswer,
} from "../protocol.ts";
import { callObject } from "./call-object.ts";
import type { KeyRequest } from "./caller.ts";
import {
  type Call,
  type HeldLease,
  KeyState,
  leftMs,
  MAX_INTRODUCTION_MS,
  SECOND_MS,
  unavailable,
  type Waiter,
} from "./key-state.ts";

/** A new stub of a key's object. */
export type KeyObject = ReturnType<Env["API_KEYS"]["getByName"]>;

export class KeyClient {
  readonly state = new KeyState(randomBase62(CLIENT_ID_LENGTH));
  readonly #runtime: Runtime;
  readonly #newStub: () => KeyObject;

  constructor(runtime: Runtime, newStub: () => KeyObject) {
    this.#runtime = runtime;
    this.#newStub = newStub;
  }

  /** Counts a request with a valid secret. Needs a record. */
  async acquire(request: KeyRequest): Promise<KeyDecision> {
    const { arrivedMs, timing } = request;
    const { decision, isDue } = this.state.arrive(this.#runtime.now());
    this.#reportSoon();
    if (isDue) this.#runtime.keepAlive(this.#call("request"));
    if (decision !== undefined) return this.state.show(decision);
    const waiter = { arrivedMs, timing };
    this.state.wait(waiter);
    return this.#awaitDecision(waiter, request);
  }

  /**
   * Asks the object about a secret that the isolate can't judge, and counts the request with the same call if the secret is valid: then
   * there is a `decision`. Throws ObjectUnavailable, or DatabaseUnavailable if the object has no record.
   */
  async introduce(request: KeyRequest) {
    const { credential, arrivedMs, timing } = request;
    const waiter: Waiter = { arrivedMs, timing, secret: credential.hash };
    this.state.wait(waiter);
    await this.#drive(waiter, () => waiter.answer !== undefined || waiter.outcome !== undefined);
    const { answer } = waiter;
    if (answer === undefined) throw waiter.outcome?.failure;
    if (waiter.secret !== undefined) return { answer };
    return { answer, decision: this.#awaitDecision(waiter, request) };
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
    const decision = this.state.decideAlone(this.#runtime.now());
    this.#reportSoon();
    return this.state.show(decision);
  }

  /** Asks the object for the key's usage. Returns the totals of its days. Throws what the call throws. */
  async readUsage(request: KeyRequest) {
    const sentMs = this.#runtime.now();
    const maxMs = leftMs(request.arrivedMs, sentMs);
    const { usage } = await this.#ask<UsageAnswer>((object) => object.usage(), maxMs, [request]);
    if (usage === undefined) throw new Error("the key does not exist");
    this.state.learnStatus(usage.status, sentMs, this.#runtime.now());
    return usage.days;
  }

  async #awaitDecision(waiter: Waiter, { onObjectFailure }: KeyRequest): Promise<KeyDecision> {
    await this.#drive(waiter, () => waiter.outcome !== undefined);
    const { decision, failure } = waiter.outcome ?? {};
    if (failure !== undefined) onObjectFailure(failure);
    if (decision === undefined) throw new Error("a request has no decision");
    return this.state.show(decision);
  }

  /** Waits until `isDone`, also if the client leaves: others may wait for its call, and the request must not be counted later. */
  #drive(waiter: Waiter, isDone: () => boolean): Promise<void> {
    const driving = this.#driveOn(waiter, isDone);
    this.#runtime.keepAlive(driving);
    return driving;
  }

  async #driveOn(waiter: Waiter, isDone: () => boolean): Promise<void> {
    while (!isDone()) {
      const next = this.state.next(waiter, this.#runtime.now());
      if (next.what === "call") await this.#call("request");
      else if (next.what === "pause") await this.#runtime.until(isDone, next.ms);
      else if (next.what === "await call")
        await this.#runtime.until(() => isDone() || this.state.call === undefined, next.ms);
      else this.#reportSoon();
    }
  }

  /** Calls the object: see KeyState.beginCall. */
  async #call(reason: Call["reason"]): Promise<void> {
    const { now } = this.#runtime;
    const call = this.state.beginCall(reason, now());
    this.#reportSoon();
    const acquire = (object: KeyObject) => {
      call.request.waitedMs = Math.max(0, now() - call.arrivedMs);
      return object.acquire(call.request);
    };
    let answer: AcquireAnswer;
    try {
      answer = await this.#ask<AcquireAnswer>(acquire, call.maxMs, call.waiters);
    } catch (failure) {
      this.state.failCall(call, failure, now());
      this.#reportSoon();
      return;
    }
    const lease = this.state.endCall(call, answer, now(), this.#runtime.random);
    if (lease !== undefined) this.#runtime.keepAlive(this.#endLease(lease));
    this.#reportSoon();
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
    this.state.learnRecord(answer, sentMs, this.#runtime.now());
    return answer;
  }

  /** Ends a lease after its time, unless a call has renewed it, and reports that. */
  async #endLease(lease: HeldLease): Promise<void> {
    const { now, wait } = this.#runtime;
    await wait(lease.untilMs - now());
    const isUrgent = this.state.endLease(lease, now());
    this.#reportSoon();
    if (isUrgent) await this.#report(0);
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
