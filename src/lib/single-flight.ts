// Work that several requests need at the same time is done by the first of them; the others poll for its result. The work goes
// on when its request was answered, or its client has left.

import { waitUntil } from "cloudflare:workers";
import { poll } from "./poll.ts";

/** Work that takes longer was cut off, with the request that began it. No part of the service is given more time. */
const MAX_WORK_MS = 12_000;

interface Flight<Result> {
  sinceMs: number;
  outcome?: PromiseSettledResult<Result>;
}

export class SingleFlight<Result> {
  readonly #flights = new Map<string, Flight<Result>>();

  /** Whether somebody does this work. */
  isUnderway(name: string): boolean {
    const flight = this.#flights.get(name);
    return flight !== undefined && Math.abs(Date.now() - flight.sinceMs) < MAX_WORK_MS;
  }

  /** What `work` gives, or what the work of this name gives that is under way; rejects like it. */
  async run(name: string, work: () => Promise<Result>): Promise<Result> {
    const flight = this.#flights.get(name);
    const isOver = () =>
      flight?.outcome !== undefined || this.#flights.get(name) !== flight || !this.isUnderway(name);
    // No `await` if there is nothing to wait for: others would begin the same work meanwhile.
    if (!isOver()) await poll(isOver, MAX_WORK_MS);
    const { outcome } = flight ?? {};
    if (outcome?.status === "fulfilled") return outcome.value;
    if (outcome?.status === "rejected") throw outcome.reason;
    const working = this.#lead(name, work);
    waitUntil(working.catch(() => {}));
    return working;
  }

  async #lead(name: string, work: () => Promise<Result>): Promise<Result> {
    const flight: Flight<Result> = { sinceMs: Date.now() };
    this.#flights.set(name, flight);
    const [outcome] = await Promise.allSettled([work()]);
    flight.outcome = outcome;
    if (this.#flights.get(name) === flight) this.#flights.delete(name);
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  }
}
