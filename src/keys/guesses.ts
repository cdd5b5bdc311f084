// Bounds what guessing costs: of keys that turn out not to exist, an address gets 60 looked up a minute in each isolate,
// however many it tries at once. A look-up that is under way may be a guess. Where those leave no place, others wait for
// one for up to two seconds: so valid keys that come all at once, from a large office, are looked up one after the other.
// While the database is too slow for that, the last of them get none.

import { BoundedMap } from "../bounded-map.ts";
import { AddressMeter } from "../rate-limit/address-meter.ts";
import { room } from "../rate-limit/window.ts";

/** How soon who waits for a place looks for the first time, how much later each further time, and how seldom at most. */
const FIRST_LOOK_MS = 1;
const LOOK_GROWTH = 1.5;
const MAX_LOOK_MS = 50;

/** How long: with the look-up, not longer than anything else may take. */
const MAX_WAIT_MS = 2_000;

/** A look-up that began so long ago was cut off, with the request that it was for. */
const MAX_LOOK_UP_MS = 12_000;

/** Together about 2 MB of the 128 that an isolate has. */
const MAX_ADDRESSES = 10_000;

/** A look-up that is under way. */
interface LookUp {
  /** Unix time. */
  beganMs: number;
}

export class Guesses {
  /** Look-ups that found nothing, by address. */
  readonly #missed = new AddressMeter();
  readonly #underway = new BoundedMap<string, readonly LookUp[]>(MAX_ADDRESSES);

  /** Whether an address has guessed so often in the minute of `nowMs` (Unix time) that it gets no more look-ups. */
  areUsedUp(address: string, nowMs: number): boolean {
    return this.#left(address, nowMs) === 0;
  }

  /**
   * Looks a key up for an address when there is a place for it, and counts it if there is none.
   * Undefined if there is no place: the guesses are used up, or too many look-ups take too long. Throws what `look` throws.
   */
  async lookUp<Result extends { key: unknown }>(
    address: string,
    nowMs: number,
    look: () => Promise<Result>,
  ): Promise<Result | undefined> {
    if (!this.#hasPlace(address, nowMs)) await this.#waitForPlace(address, nowMs);
    if (!this.#hasPlace(address, nowMs)) return undefined;
    const own = { beganMs: Date.now() };
    this.#underway.set(address, [...this.#current(address), own]);
    try {
      const result = await look();
      if (result.key === undefined) this.#missed.take(address, nowMs);
      return result;
    } finally {
      const others = this.#current(address).filter((each) => each !== own);
      if (others.length > 0) this.#underway.set(address, others);
      else this.#underway.delete(address);
    }
  }

  #hasPlace(address: string, nowMs: number): boolean {
    return this.#current(address).length < this.#left(address, nowMs);
  }

  async #waitForPlace(address: string, nowMs: number): Promise<void> {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
    }, MAX_WAIT_MS);
    let lookMs = FIRST_LOOK_MS;
    while (!isLate && !this.areUsedUp(address, nowMs) && !this.#hasPlace(address, nowMs)) {
      await scheduler.wait(lookMs);
      lookMs = Math.min(LOOK_GROWTH * lookMs, MAX_LOOK_MS);
    }
    clearTimeout(timer);
  }

  #left(address: string, nowMs: number): number {
    return room(this.#missed.peek(address, nowMs).windows);
  }

  /** Those that are under way; none that was cut off. */
  #current(address: string): readonly LookUp[] {
    const nowMs = Date.now();
    const begun = this.#underway.get(address) ?? [];
    return begun.filter(({ beganMs }) => Math.abs(nowMs - beganMs) < MAX_LOOK_UP_MS);
  }
}
