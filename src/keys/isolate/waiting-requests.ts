// The requests of one key that wait in an isolate, in their order of arrival. Each leaves with its decision, or with a failure.

import { DatabaseUnavailable } from "../../d1/statements.ts";
import type { Timing } from "../../http/timing.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { fullWindows, type KeyDecision, mapWindows } from "../../rate-limit/windows.ts";
import { type AcquireResult, MAX_WAIT_MS, type RecordAnswer } from "../protocol.ts";

/** The longest wait for the answer about a secret that the isolate can't judge. Longer: less time to ask the primary instead. */
export const MAX_INTRODUCTION_MS = 4_000;

/**
 * A request that waits for its decision. `failure` is set if it was decided locally. `secret` is the hash of a secret that the isolate
 * can't judge; such a request is not decided locally.
 */
export type Waiter = {
  arrivedMs: number;
  timing?: Timing | undefined;
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

/** The failure of a call that asked about a secret: the object has no record, or can't be reached. */
export function unavailable(failure: unknown): Error {
  return failure instanceof DatabaseUnavailable ? failure : new ObjectUnavailable(failure);
}

/** How long a request may wait that arrived at `arrivedMs` (both Unix time). After the clock steps back, it waits anew. */
export function leftMs(arrivedMs: number, nowMs: number, maxMs = MAX_WAIT_MS): number {
  return Math.max(0, Math.min(arrivedMs, nowMs) + maxMs - nowMs);
}

export class WaitingRequests {
  readonly #runtime: Runtime;
  #waiters: Waiter[] = [];

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  get all(): readonly Waiter[] {
    return this.#waiters;
  }

  /** Keeps the order of arrival, although a request whose secret was unknown comes late. */
  add(waiter: Waiter): void {
    const before = this.#waiters.findLastIndex((each) => each.arrivedMs <= waiter.arrivedMs);
    this.#waiters.splice(before + 1, 0, waiter);
  }

  remove(waiters: readonly Waiter[]): void {
    const removed = new Set(waiters);
    this.#waiters = this.#waiters.filter((each) => !removed.has(each));
  }

  /** The requests with this secret, which the isolate can't judge. */
  withSecret(secret: string | undefined): Waiter[] {
    return secret === undefined ? [] : this.#waiters.filter((each) => each.secret === secret);
  }

  /** How long a request may wait. If the clock has stepped back, it has arrived now. */
  leftMs(waiter: Waiter): number {
    const nowMs = this.#runtime.now();
    waiter.arrivedMs = Math.min(waiter.arrivedMs, nowMs);
    return leftMs(waiter.arrivedMs, nowMs, waiter.secret === undefined ? MAX_WAIT_MS : MAX_INTRODUCTION_MS);
  }

  /** The requests that may wait for at most `leftMs`. */
  overdue(leftMs: number): Waiter[] {
    return this.#waiters.filter((each) => this.leftMs(each) <= leftMs);
  }

  /** Decides those that need no call. */
  decideEach(decide: (waiter: Waiter) => KeyDecision | undefined): void {
    for (const waiter of this.#waiters.filter(({ secret }) => secret === undefined))
      waiter.decision = decide(waiter);
    this.#removeDecided();
  }

  /** Ends the wait of requests whose secret the isolate can't judge. */
  fail(waiters: readonly Waiter[], failure: unknown): void {
    for (const each of waiters) each.failure = unavailable(failure);
    this.remove(waiters);
  }

  /** Gives the requests of a batch their decisions. Undecided requests get none. `failure`: why they are decided locally. */
  settle(
    waiters: readonly Waiter[],
    result: Omit<AcquireResult, "revision" | "firstRefusalMs"> & Pick<KeyDecision, "by">,
    failure?: unknown,
  ): void {
    const { admitted, by, refused, nowMs, windows, leased, bannedUntilMs } = result;
    const full = fullWindows(windows, leased);
    const refusal = { admitted: false, by, nowMs, windows: full, ...(bannedUntilMs && { bannedUntilMs }) };
    for (const [index, waiter] of waiters.entries()) {
      if (index >= admitted && index < waiters.length - refused) continue;
      const later = admitted - 1 - index;
      // The result of a retry may belong to a new window, in which nothing is used.
      const shown = () => mapWindows(windows, (each) => ({ ...each, used: Math.max(0, each.used - later) }));
      waiter.decision = later < 0 ? refusal : { admitted: true, by, nowMs, windows: shown() };
      waiter.failure = failure;
    }
    this.#removeDecided();
  }

  #removeDecided(): void {
    this.#waiters = this.#waiters.filter(({ decision }) => decision === undefined);
  }
}
