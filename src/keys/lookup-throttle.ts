// Bounds the database look-ups that guessing keys can cause: each bucket (an address, a network, the zone of another Worker) gets 60
// look-ups of unknown keys a minute in each isolate. A look-up that is under way may be of an unknown key, so it takes one of the
// slots that are left. If none is left, a request waits up to two seconds for one.

import { BoundedMap } from "../lib/bounded-map.ts";
import { poll } from "../lib/single-flight.ts";
import { AddressCounter } from "../rate-limit/anonymous.ts";
import { type Decision, room } from "../rate-limit/windows.ts";

/** How long a request waits for a slot. */
const MAX_WAIT_MS = 2_000;

/** A look-up that began so long ago was cut off, with the request that it was for. */
const MAX_LOOK_UP_MS = 12_000;

/** Together about 2 MB of the 128 that an isolate has. */
const MAX_BUCKETS = 10_000;

/** A look-up that is under way. */
interface LookUp {
  /** Unix time. */
  beganMs: number;
}

/** There is no slot: a bucket has had its unknown keys (`refusal`), or its look-ups take too long. */
export class NoSlot extends Error {
  readonly buckets: readonly string[];
  readonly refusal: Decision | undefined;

  constructor(buckets: readonly string[], refusal: Decision | undefined) {
    super("too many keys of one address are being looked up");
    this.name = "NoSlot";
    this.buckets = buckets;
    this.refusal = refusal;
  }
}

export class LookupThrottle {
  /** Look-ups of unknown keys, by bucket. */
  readonly #unknown = new AddressCounter();
  readonly #underway = new BoundedMap<string, readonly LookUp[]>(MAX_BUCKETS);

  /**
   * Runs a look-up once each of its buckets has a slot, and counts it there if it finds null. Throws NoSlot, or what `look` throws.
   * Without buckets it is not bounded.
   */
  async run<Result>(
    buckets: readonly string[],
    nowMs: number,
    look: () => Promise<Result | null>,
  ): Promise<Result | null> {
    const isOver = () => this.#exhausted(buckets, nowMs) !== undefined || this.#hasSlot(buckets, nowMs);
    // There is no `await` between the last look and taking the slot: others would take it meanwhile.
    if (!isOver()) await poll(isOver, MAX_WAIT_MS);
    if (!this.#hasSlot(buckets, nowMs)) throw this.#noSlot(buckets, nowMs);
    const own = { beganMs: Date.now() };
    for (const bucket of buckets) this.#underway.set(bucket, [...this.#current(bucket), own]);
    try {
      const result = await look();
      if (result === null) for (const bucket of buckets) this.#unknown.count(bucket, nowMs);
      return result;
    } finally {
      for (const bucket of buckets) {
        const others = this.#current(bucket).filter((each) => each !== own);
        if (others.length > 0) this.#underway.set(bucket, others);
        else this.#underway.delete(bucket);
      }
    }
  }

  #noSlot(buckets: readonly string[], nowMs: number): NoSlot {
    const exhausted = this.#exhausted(buckets, nowMs);
    return new NoSlot(buckets, exhausted === undefined ? undefined : this.#unknown.peek(exhausted, nowMs));
  }

  /** A bucket that had all its unknown keys of the minute of `nowMs` (Unix time). */
  #exhausted(buckets: readonly string[], nowMs: number): string | undefined {
    return buckets.find((bucket) => this.#left(bucket, nowMs) === 0);
  }

  #hasSlot(buckets: readonly string[], nowMs: number): boolean {
    return buckets.every((bucket) => this.#current(bucket).length < this.#left(bucket, nowMs));
  }

  #left(bucket: string, nowMs: number): number {
    return room(this.#unknown.peek(bucket, nowMs).windows);
  }

  /** The look-ups that are under way, and were not cut off. */
  #current(bucket: string): readonly LookUp[] {
    const nowMs = Date.now();
    const begun = this.#underway.get(bucket) ?? [];
    return begun.filter(({ beganMs }) => Math.abs(nowMs - beganMs) < MAX_LOOK_UP_MS);
  }
}
