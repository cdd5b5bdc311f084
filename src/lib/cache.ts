// A cache in the isolate's memory with stale-while-revalidate and stale-if-error (RFC 5861). Concurrent requests share one load.
//
// An age is measured by the isolate's clock from the start of the load. After the clock steps back, the value is not fresh.

import { BoundedMap } from "./bounded-map.ts";
import { SingleFlight } from "./single-flight.ts";

/** How long a value may be served, in milliseconds since the start of its load. */
export interface Lifetime {
  freshMs: number;
  /** From this age on, using a fresh value reloads it in the background. */
  revalidateMs: number;
  /** How much longer it may be served if a reload fails. */
  staleIfErrorMs: number;
}

export interface CacheOptions<Value, Context> {
  /** Loads a value for a request. `known` is the cached value, if any. The result `undefined` removes the entry. */
  load(key: string, context: Context, known: Value | undefined): Promise<Value>;
  lifetimeOf(value: Value): Lifetime;
  /** The largest sum of `sizeOf`, by default the number of values. The oldest are evicted first. */
  maxSize: number;
  sizeOf?(value: Value): number;
  /** How long after a failure the load is not retried, by default 0. `isStale`: a stale value is served meanwhile. */
  failureMs?(error: unknown, isStale: boolean): number;
  /** Called before a stale value is served after `error`. Throws to prevent that. */
  onStale?(context: Context, error: unknown): void;
}

type Entry<Value> = { value: Value; loadedMs: number; lifetime: Lifetime };

/** Failures are stored separately: a flood of keys that can't be loaded must not evict values. */
const MAX_FAILURES = 1_000;

export class Cache<Value, Context> {
  readonly #options: CacheOptions<Value, Context>;
  readonly #entries: BoundedMap<string, Entry<Value>>;
  readonly #failures = new BoundedMap<string, { error: unknown; atMs: number }>(MAX_FAILURES);
  readonly #flights = new SingleFlight<Value>();

  constructor(options: CacheOptions<Value, Context>) {
    this.#options = options;
    this.#entries = new BoundedMap(options.maxSize, ({ value }) => options.sizeOf?.(value) ?? 1);
  }

  /** Whether the cache has a value, fresh or stale. */
  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /** Returns a fresh value synchronously. Rejects as `load` does or recently did. */
  get(key: string, context: Context): Value | Promise<Value> {
    const entry = this.#entries.get(key);
    if (entry === undefined) return this.#load(key, context, entry);
    const { value, loadedMs, lifetime } = entry;
    const ageMs = ageOf(loadedMs);
    if (ageMs < lifetime.revalidateMs) return value;
    if (ageMs >= lifetime.freshMs) return this.#load(key, context, entry);
    // A failure is ignored here: the next request after `freshMs` loads again.
    if (!this.#flights.isUnderway(key)) void this.#reload(key, context, value).catch(() => {});
    return value;
  }

  /** Stores a value whose load began at `loadedMs` (Unix time); `undefined` removes the entry. */
  set(key: string, value: Value, loadedMs: number): void {
    if (value === undefined) this.#entries.delete(key);
    else this.#entries.set(key, { value, loadedMs, lifetime: this.#options.lifetimeOf(value) });
  }

  async #load(key: string, context: Context, entry: Entry<Value> | undefined): Promise<Value> {
    const { failureMs, onStale } = this.#options;
    const { freshMs = 0, staleIfErrorMs = 0 } = entry?.lifetime ?? {};
    const isStale = entry !== undefined && ageOf(entry.loadedMs) < freshMs + staleIfErrorMs;
    const failure = this.#failures.get(key);
    const isPaused =
      failure !== undefined && ageOf(failure.atMs) < (failureMs?.(failure.error, isStale) ?? 0);
    try {
      if (isPaused) throw failure.error;
      return await this.#reload(key, context, entry?.value);
    } catch (error) {
      // A failure that causes no pause is not kept: a flood of such must not evict others.
      if (!isPaused && (failureMs?.(error, isStale) ?? 0) > 0)
        this.#failures.set(key, { error, atMs: Date.now() });
      if (!isStale) throw error;
      onStale?.(context, error);
      return entry.value;
    }
  }

  #reload(key: string, context: Context, known: Value | undefined): Promise<Value> {
    return this.#flights.run(key, async () => {
      const beganMs = Date.now();
      const value = await this.#options.load(key, context, known);
      this.set(key, value, beganMs);
      return value;
    });
  }
}

function ageOf(atMs: number): number {
  const nowMs = Date.now();
  return atMs <= nowMs ? nowMs - atMs : Number.POSITIVE_INFINITY;
}
