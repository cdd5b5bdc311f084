// The network of the ladder, in virtual time: isolates in the six regions, and one object that all of them call. It is in the region of the
// primary of the database.

import type { Random } from "../../test/simulation/random.ts";
import type { Timeline } from "../../test/simulation/timeline.ts";
import { REGIONS } from "./regions.ts";

const LOCATIONS = REGIONS.length;
/** Eastern North America. */
const HOME = 1;
/** From the object, and back. */
export const TO_PRIMARY_MS = REGIONS[HOME]?.toPrimaryMs ?? Number.NaN;
/** A trip takes up to so much longer. */
const JITTER = 0.2;
/** How long a call occupies the object: Cloudflare names 1,000 requests a second, and 200 to 500 if they store. */
const CALL_MS = 1;
const STORING_CALL_MS = 3;
/** Cloudflare removes an object from memory after this time without a call. */
export const IDLE_MS = 10_000;

export class Network {
  readonly #time: Timeline;
  readonly #random: Random;
  readonly #lostShare: number;
  #objectFreeMs = 0;
  #crashes = 0;

  /** `lostShare`: of the calls that the object executes, whose answers are lost. */
  constructor(time: Timeline, random: Random, lostShare: number) {
    this.#time = time;
    this.#random = random;
    this.#lostShare = lostShare;
  }

  /** Calls the object, which executes one call after another. Rejects if the call is lost, or if the object crashes meanwhile. */
  async call<Answer>(
    isolate: number,
    execute: () => Promise<Answer> | Answer,
    stores = false,
  ): Promise<Answer> {
    const isLost = this.#random.chance(this.#lostShare);
    const crashes = this.#crashes;
    await this.#time.wait(this.#tripMs(isolate));
    this.#objectFreeMs =
      Math.max(this.#time.nowMs, this.#objectFreeMs) + (stores ? STORING_CALL_MS : CALL_MS);
    await this.#time.wait(this.#objectFreeMs - this.#time.nowMs);
    const answer = this.#crashes === crashes ? await execute() : undefined;
    await this.#time.wait(this.#tripMs(isolate));
    if (isLost || answer === undefined || this.#crashes !== crashes) throw new Error("the call is lost");
    return answer;
  }

  /** The object's calls under way are lost. */
  crash(): void {
    this.#crashes += 1;
  }

  /** One way between an isolate and the object. Isolate 0 is in the object's region. */
  #tripMs(isolate: number): number {
    const roundTripMs = REGIONS[locationOf(isolate)]?.toObjectsMs[HOME] ?? Number.NaN;
    return (roundTripMs / 2) * (1 + JITTER * this.#random.next());
  }
}

export function locationOf(isolate: number): number {
  return (HOME + isolate) % LOCATIONS;
}
