// Bounds the calls and look-ups that guessed secrets cause. In each isolate, a bucket (an address, a network, another Worker's zone)
// has as many look-ups of unknown keys a minute as requests without a key. A running look-up may be of an unknown key, so it occupies a slot.
// If no slot is free, a request waits a short time for one.

import { DatabaseUnavailable } from "../../d1/statements.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { MAX_WORK_MS } from "../../lib/single-flight.ts";
import { AddressCounter } from "../../rate-limit/anonymous.ts";
import { type Decision, type Outlook, room } from "../../rate-limit/windows.ts";

const MAX_SLOT_WAIT_MS = 2_000;

/** Together about 2 MB of the 128 that an isolate has. */
const MAX_BUCKETS = 10_000;

export class LookupThrottle {
  /** Look-ups of unknown keys, by bucket. */
  readonly #unknown = new AddressCounter();
  /** Running look-ups, each by its beginning (Unix time), by bucket. */
  readonly #running = new BoundedMap<string, readonly { beganMs: number }[]>(MAX_BUCKETS);
  readonly #runtime: Runtime;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Whether a look-up can begin without waiting. */
  hasRoom(buckets: readonly string[], nowMs: number): boolean {
    return this.#refusal(buckets, nowMs) === undefined && this.#hasSlot(buckets, nowMs);
  }

  /**
   * Waits until all buckets have a free slot, or until the request `isFree` to go on without. Otherwise returns the refusal of a bucket
   * that is exhausted in the minute of `nowMs` (Unix time). Throws DatabaseUnavailable if running look-ups take too long.
   */
  async awaitSlot(
    buckets: readonly string[],
    nowMs: number,
    isFree: () => boolean,
  ): Promise<Decision | undefined> {
    const isReady = () => isFree() || this.#hasSlot(buckets, nowMs);
    await this.#runtime.until(
      () => isReady() || this.#refusal(buckets, nowMs) !== undefined,
      MAX_SLOT_WAIT_MS,
    );
    if (isReady()) return undefined;
    const refusal = this.#refusal(buckets, nowMs);
    if (refusal !== undefined) return { ...refusal, by: "address" };
    throw new DatabaseUnavailable("too many keys of one address are being looked up", false);
  }

  /**
   * Runs a look-up, and counts it as unknown unless the key `mayExist`. Undefined if a bucket has no free slot. Without buckets it is not
   * throttled.
   */
  async run<Result>(
    buckets: readonly string[],
    nowMs: number,
    lookUp: () => Promise<Result>,
    mayExist: (result: Result) => boolean,
  ): Promise<Result | undefined> {
    if (!this.#hasSlot(buckets, nowMs)) return undefined;
    const own = { beganMs: this.#runtime.now() };
    for (const bucket of buckets) this.#running.set(bucket, [...this.#runningIn(bucket), own]);
    try {
      const result = await lookUp();
      if (!mayExist(result)) for (const bucket of buckets) this.#unknown.count(bucket, nowMs);
      return result;
    } finally {
      for (const bucket of buckets) {
        const others = this.#runningIn(bucket).filter((each) => each !== own);
        if (others.length > 0) this.#running.set(bucket, others);
        else this.#running.delete(bucket);
      }
    }
  }

  /** The refusal of the first bucket that is exhausted in the minute of `nowMs` (Unix time). */
  #refusal(buckets: readonly string[], nowMs: number): Outlook | undefined {
    return buckets.map((bucket) => this.#unknown.peek(bucket, nowMs)).find(({ admitted }) => !admitted);
  }

  #hasSlot(buckets: readonly string[], nowMs: number): boolean {
    return buckets.every(
      (bucket) => this.#runningIn(bucket).length < room(this.#unknown.peek(bucket, nowMs).windows),
    );
  }

  /** The running look-ups that were not cancelled. */
  #runningIn(bucket: string) {
    const nowMs = this.#runtime.now();
    return (this.#running.get(bucket) ?? []).filter(({ beganMs }) => Math.abs(nowMs - beganMs) < MAX_WORK_MS);
  }
}
