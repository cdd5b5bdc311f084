// Bounds what guessing keys costs: of keys that turn out not to exist, a bucket (an address, a network, the zone of another
// Worker) gets 60 looked up a minute in each isolate, however many it tries at once. A look-up that is under way may be a
// guess. Where those leave no place, others wait for one for up to two seconds: so valid keys that come all at once, from a
// large office, are looked up one after the other. While the database is too slow for that, the last of them get none.

import { BoundedMap } from "../lib/bounded-map.ts";
import { poll } from "../lib/poll.ts";
import { AddressMeter } from "../rate-limit/anonymous.ts";
import { type Decision, room } from "../rate-limit/windows.ts";

/** How long a request waits for a place: with the look-up, not longer than anything else may take. */
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

/** A look-up counts in each of its buckets. Without any it is bounded by nothing. */
export class Guesses {
  /** Look-ups that found nothing, by bucket. */
  readonly #missed = new AddressMeter();
  readonly #underway = new BoundedMap<string, readonly LookUp[]>(MAX_BUCKETS);

  /** Whether a bucket had so many guesses in the minute of `nowMs` (Unix time) that it gets no more look-ups. */
  areUsedUp(buckets: readonly string[], nowMs: number): boolean {
    return buckets.some((bucket) => this.#left(bucket, nowMs) === 0);
  }

  /** What a request is told that gets no look-up. */
  refusal(buckets: readonly string[], nowMs: number): Decision {
    const usedUp = buckets.find((bucket) => this.#left(bucket, nowMs) === 0) ?? "";
    return this.#missed.peek(usedUp, nowMs);
  }

  /**
   * Looks a key up when there is a place for it, and counts it if there is none. Undefined if there is no place: the guesses
   * are used up, or too many look-ups take too long. Throws what `look` throws.
   */
  async lookUp<Result extends { key: unknown }>(
    buckets: readonly string[],
    nowMs: number,
    look: () => Promise<Result>,
  ): Promise<Result | undefined> {
    const isOver = () => this.areUsedUp(buckets, nowMs) || this.#hasPlace(buckets, nowMs);
    // No `await` if there is nothing to wait for: others would take the place meanwhile.
    if (!isOver()) await poll(isOver, MAX_WAIT_MS);
    if (!this.#hasPlace(buckets, nowMs)) return undefined;
    const own = { beganMs: Date.now() };
    for (const bucket of buckets) this.#underway.set(bucket, [...this.#current(bucket), own]);
    try {
      const result = await look();
      if (result.key === undefined) for (const bucket of buckets) this.#missed.take(bucket, nowMs);
      return result;
    } finally {
      for (const bucket of buckets) {
        const others = this.#current(bucket).filter((each) => each !== own);
        if (others.length > 0) this.#underway.set(bucket, others);
        else this.#underway.delete(bucket);
      }
    }
  }

  #hasPlace(buckets: readonly string[], nowMs: number): boolean {
    return buckets.every((bucket) => this.#current(bucket).length < this.#left(bucket, nowMs));
  }

  #left(bucket: string, nowMs: number): number {
    return room(this.#missed.peek(bucket, nowMs).windows);
  }

  /** Those that are under way; none that was cut off. */
  #current(bucket: string): readonly LookUp[] {
    const nowMs = Date.now();
    const begun = this.#underway.get(bucket) ?? [];
    return begun.filter(({ beganMs }) => Math.abs(nowMs - beganMs) < MAX_LOOK_UP_MS);
  }
}
