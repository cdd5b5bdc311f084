// A cache in the isolate's memory with stale-while-revalidate (RFC 5861). Concurrent requests share one load.
//
// An age is measured by the isolate's clock from the start of the load. After the clock steps back, the value is not fresh.

import { BoundedMap } from "./bounded-map.ts";
import type { Runtime } from "./runtime.ts";
import { SingleFlight } from "./single-flight.ts";

export interface CacheOptions<Value, Context> {
  runtime: Runtime;
  /** Loads a value for a request. The result `undefined` removes the entry. */
  load(key: string, context: Context): Promise<Value>;
  /** How long a value may be served, in milliseconds since the start of its load. */
  freshMs: number;
  /** From this age on, using a fresh value reloads it in the background, by default never. */
  revalidateMs?: number;
  /** How long after a failure the load is not retried, by default 0. */
  failureMs?: number;
  /** The largest sum of `sizeOf`, by default the number of values. The oldest are evicted first. */
  maxSize: number;
  sizeOf?(value: Value): number;
}

/** Failures are stored separately: a flood of keys that can't be loaded must not evict values. */
const MAX_FAILURES = 1_000;

export class Cache<Value, Context> {
  readonly #options: CacheOptions<Value, Context>;
  readonly #entries: BoundedMap<string, { value: Value; loadedMs: number }>;
  readonly #failures = new BoundedMap<string, { error: unknown; atMs: number }>(MAX_FAILURES);
  readonly #flights: SingleFlight<Value>;

  constructor(options: CacheOptions<Value, Context>) {
    this.#options = options;
    this.#flights = new SingleFlight(options.runtime);
    this.#entries = new BoundedMap(options.maxSize, ({ value }) => options.sizeOf?.(value) ?? 1);
  }

  /** Whether the cache has a value, fresh or not. */
  has(key: string): boolean {
    return this.#entries.get(key) !== undefined;
  }

  /** The cached or a new value. Rejects as `load` does or recently did. */
  async get(key: string, context: Context): Promise<Value> {
    const { freshMs, revalidateMs = freshMs } = this.#options;
    const entry = this.#entries.get(key);
    const ageMs = ageOf(entry?.loadedMs);
    if (entry === undefined || ageMs >= freshMs) return this.#load(key, context);
    // A failure is ignored here: the next request after `freshMs` loads again.
    if (ageMs >= revalidateMs && !this.#flights.isUnderway(key))
      void this.#load(key, context).catch(() => {});
    return entry.value;
  }

  /** Stores a value whose load began at `loadedMs` (Unix time); `undefined` removes the entry. */
  set(key: string, value: Value, loadedMs: number): void {
    if (value === undefined) this.#entries.delete(key);
    else this.#entries.set(key, { value, loadedMs });
  }

  async #load(key: string, context: Context): Promise<Value> {
    const { load, failureMs = 0 } = this.#options;
    const failure = this.#failures.get(key);
    if (failure !== undefined && ageOf(failure.atMs) < failureMs) throw failure.error;
    return this.#flights.run(key, async () => {
      const beganMs = Date.now();
      try {
        const value = await load(key, context);
        this.set(key, value, beganMs);
        return value;
      } catch (error) {
        if (failureMs > 0) this.#failures.set(key, { error, atMs: Date.now() });
        throw error;
      }
    });
  }
}

/** Unknown, so infinite, after the clock has stepped back. */
function ageOf(atMs = Number.POSITIVE_INFINITY): number {
  const nowMs = Date.now();
  return atMs <= nowMs ? nowMs - atMs : Number.POSITIVE_INFINITY;
}
