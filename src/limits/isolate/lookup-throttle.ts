// Bounds the calls and look-ups that guessed secrets cause. In each isolate, a bucket (an address, a network, another Worker's zone) may look
// up as many unknown keys a minute as it may send requests without a key. A running look-up may be of an unknown key, so it occupies a slot.
// If no slot is free, a request waits a short time for one.
//
// A look-up that finds its key adds a slot to its buckets until the minute ends. So the keys of a platform that calls from one address are
// looked up in groups that double: 60, 120, 240. Guesses add no slots, so a bucket has at most 60 unknown keys a minute, and one
// more for each valid key that was new to the isolate.

import { BoundedMap } from "../../lib/bounded-map.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { MAX_WORK_MS } from "../../lib/single-flight.ts";
import { AddressCounter } from "../address-counter.ts";
import { LimiterUnavailable } from "../errors.ts";
import { room, startOfWindowMs } from "../windows.ts";
import { patienceMs } from "./key-state.ts";

/** After the arrival of a request. Longer: less time for its look-up; shorter: more 503s while many keys are new. */
const MAX_SLOT_WAIT_MS = 2_000;

/** Together about 4 MB of the 128 that an isolate has. */
const MAX_BUCKETS = 10_000;

/** The bucket of all throttled look-ups. No look-up waits for it: it tells whether the isolate is flooded from many addresses. */
export const EVERYWHERE = "everywhere";

/** What a look-up tells of its secret; `undecided` if it tells nothing. */
export type Verdict = "found" | "unknown" | "undecided";

type Bucket = {
  /** The running look-ups, each by its beginning (Unix time), in the order of their beginnings. */
  running: Set<{ beganMs: number }>;
  /** The look-ups that have found their key in the minute that began at `minuteMs` (Unix time). */
  found: number;
  minuteMs: number;
};

export class LookupThrottle {
  /** Look-ups of unknown keys, by bucket. */
  readonly #unknown = new AddressCounter();
  readonly #buckets = new BoundedMap<string, Bucket>(MAX_BUCKETS);
  readonly #runtime: Runtime;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Whether a look-up can begin without waiting. */
  hasRoom(buckets: readonly string[], nowMs: number): boolean {
    return buckets.every((name) => {
      const left = room(this.#unknown.peek(name, nowMs).windows);
      const bucket = this.#buckets.get(name);
      if (left === 0 || bucket === undefined) return left > 0;
      return this.#runningIn(bucket) < left + this.#foundIn(bucket);
    });
  }

  /**
   * Waits until all buckets have a free slot, or until the request `isFree` to go on without. Otherwise returns the refusal of a bucket
   * that is exhausted in the minute of `arrivedMs` (Unix time). Throws LimiterUnavailable if running look-ups take too long.
   */
  async awaitSlot(buckets: readonly string[], arrivedMs: number, isFree: () => boolean) {
    const isReady = () => isFree() || this.hasRoom(buckets, arrivedMs);
    const refusal = () =>
      buckets.map((bucket) => this.#unknown.peek(bucket, arrivedMs)).find(({ admitted }) => !admitted);
    const maxMs = patienceMs(arrivedMs, this.#runtime.now(), MAX_SLOT_WAIT_MS);
    await this.#runtime.until(() => isReady() || refusal() !== undefined, maxMs);
    if (isReady()) return undefined;
    const refused = refusal();
    if (refused !== undefined) return { ...refused, by: "address" as const };
    throw new LimiterUnavailable("lookups");
  }

  /** Runs a look-up, and counts its verdict. Undefined if a bucket has no free slot. Without buckets it is not throttled. */
  async run<Result>(buckets: readonly string[], nowMs: number, lookUp: () => Promise<[Result, Verdict]>) {
    if (!this.hasRoom(buckets, nowMs)) return undefined;
    const names = buckets.length === 0 ? [] : [...buckets, EVERYWHERE];
    const own = { beganMs: this.#runtime.now() };
    for (const name of names) this.#bucketOf(name).running.add(own);
    let verdict: Verdict = "undecided";
    try {
      const [result, judged] = await lookUp();
      verdict = judged;
      return result;
    } finally {
      for (const name of names) {
        const bucket = this.#bucketOf(name);
        bucket.running.delete(own);
        if (verdict === "unknown") this.#unknown.count(name, nowMs);
        if (verdict === "found") this.#countFound(bucket);
        if (bucket.running.size + this.#foundIn(bucket) === 0) this.#buckets.delete(name);
      }
    }
  }

  #bucketOf(name: string): Bucket {
    const bucket = this.#buckets.get(name) ?? { running: new Set(), found: 0, minuteMs: 0 };
    this.#buckets.set(name, bucket);
    return bucket;
  }

  /** The running look-ups that were not cancelled: forgets the others. */
  #runningIn({ running }: Bucket): number {
    const nowMs = this.#runtime.now();
    for (const each of running) {
      if (Math.abs(nowMs - each.beganMs) < MAX_WORK_MS) break;
      running.delete(each);
    }
    return running.size;
  }

  #foundIn({ found, minuteMs }: Bucket): number {
    return minuteMs === startOfWindowMs(60, this.#runtime.now()) ? found : 0;
  }

  #countFound(bucket: Bucket): void {
    bucket.found = this.#foundIn(bucket) + 1;
    bucket.minuteMs = startOfWindowMs(60, this.#runtime.now());
  }
}
