// Bounds what guessing costs: of keys that turn out not to exist, an address gets 60 looked up a minute, however many it tries
// at once. A look-up that is under way may be a guess. Where those leave no place, others wait until more is known: valid
// keys that come all at once, from a large office, are all looked up, only later.

import { BoundedMap } from "../bounded-map.ts";
import { DatabaseUnavailable } from "../database.ts";
import { DeadlineExceeded } from "../deadline.ts";
import { AddressMeter } from "../rate-limit/address-meter.ts";
import { room } from "../rate-limit/window.ts";

/** How often who waits for a place looks for one, and for how long: as long as the database may take. */
const LOOK_MS = 5;
const MAX_WAIT_MS = 5_000;

/** A look-up that began so long ago was cut off, with the request that it was for. */
const MAX_LOOK_UP_MS = 12_000;

/** Together about 2 MB of the 128 that an isolate has. */
const MAX_ADDRESSES = 10_000;

export class Guesses {
  /** Look-ups that found nothing, by address. */
  readonly #missed = new AddressMeter();
  /** When those began that are under way (Unix time), by address. */
  readonly #underway = new BoundedMap<string, readonly number[]>(MAX_ADDRESSES);

  /** Whether an address has guessed so often in the minute of `nowMs` (Unix time) that it gets no more look-ups. */
  areUsedUp(address: string, nowMs: number): boolean {
    return this.#left(address, nowMs) === 0;
  }

  /**
   * Looks something up for an address when there is a place for it, and counts it if there is nothing of the kind.
   * Undefined if the guesses are used up. Throws what `look` throws, and DatabaseUnavailable if no place becomes free.
   */
  async lookUp<Result extends { value: unknown }>(
    address: string,
    nowMs: number,
    look: () => Promise<Result>,
  ): Promise<Result | undefined> {
    for (let waitedMs = 0; this.#begun(address).length >= this.#left(address, nowMs); waitedMs += LOOK_MS) {
      if (this.areUsedUp(address, nowMs)) return undefined;
      if (waitedMs >= MAX_WAIT_MS) {
        throw new DatabaseUnavailable(new DeadlineExceeded("the database", MAX_WAIT_MS), false);
      }
      await scheduler.wait(LOOK_MS);
    }
    const beganMs = Date.now();
    this.#underway.set(address, [...this.#begun(address), beganMs]);
    try {
      const result = await look();
      if (result.value === undefined) this.#missed.take(address, nowMs);
      return result;
    } finally {
      this.#underway.set(address, this.#begun(address).toSpliced(this.#begun(address).indexOf(beganMs), 1));
    }
  }

  #left(address: string, nowMs: number): number {
    return room(this.#missed.peek(address, nowMs).windows);
  }

  /** When those began that are under way; none that was cut off. */
  #begun(address: string): readonly number[] {
    const nowMs = Date.now();
    const begun = this.#underway.get(address) ?? [];
    return begun.filter((beganMs) => Math.abs(nowMs - beganMs) < MAX_LOOK_UP_MS);
  }
}
