// Single flight: of the requests that need one result, the first does the work and the others poll for it.
//
// A request that awaits another request's promise hangs if that request is cancelled, for instance because its client left,
// unless the work was given to `waitUntil`; and Cloudflare has cancelled requests that waited so (cloudflare-docs#29797). A
// request's own timer always fires.

import { BoundedMap } from "./bounded-map.ts";
import type { Runtime } from "./runtime.ts";

/** Longer than any work takes: work older than this was cancelled together with its request. */
export const MAX_WORK_MS = 12_000;

/** Only cancelled work leaves its flight behind: at most 2 MB of the 128 that an isolate has, for each SingleFlight. */
const MAX_FLIGHTS = 10_000;

type Flight<Result> = { sinceMs: number; outcome?: PromiseSettledResult<Result> };

export class SingleFlight<Result> {
  readonly #flights = new BoundedMap<string, Flight<Result>>(MAX_FLIGHTS);
  readonly #runtime: Runtime;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Whether work of this name is running and was not cancelled. */
  isUnderway(name: string): boolean {
    const flight = this.#flights.get(name);
    return flight !== undefined && Math.abs(this.#runtime.now() - flight.sinceMs) < MAX_WORK_MS;
  }

  /** The result of the running work of this name, or else of `work`, which continues if the request ends. */
  async run(name: string, work: () => Promise<Result>): Promise<Result> {
    // There is no `await` between the last check and the start of the work, so it starts once.
    while (this.isUnderway(name)) {
      const flight = this.#flights.get(name);
      const isOver = () => flight?.outcome !== undefined || this.#flights.get(name) !== flight;
      await this.#runtime.until(() => isOver() || !this.isUnderway(name), MAX_WORK_MS);
      if (flight?.outcome?.status === "fulfilled") return flight.outcome.value;
      if (flight?.outcome?.status === "rejected") throw flight.outcome.reason;
    }
    const working = this.#lead(name, work);
    this.#runtime.keepAlive(working.catch(() => {}));
    return working;
  }

  async #lead(name: string, work: () => Promise<Result>): Promise<Result> {
    const flight: Flight<Result> = { sinceMs: this.#runtime.now() };
    this.#flights.set(name, flight);
    const [outcome] = await Promise.allSettled([work()]);
    flight.outcome = outcome;
    if (this.#flights.get(name) === flight) this.#flights.delete(name);
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  }
}
