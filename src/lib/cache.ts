// A cache in the isolate's memory (RFC 5861: stale-while-revalidate, stale-if-error). A value is fresh for a time, and loaded again in
// the background while it is used; it is served stale if its source fails; requests that need it at the same time load it once.
//
// Ages go by the isolate's clock, from when a load began. After a step back the age is unknown, so the value is not fresh.

import { waitUntil } from "cloudflare:workers";
import { BoundedMap } from "./bounded-map.ts";
import { SingleFlight } from "./single-flight.ts";

/** How long a value may be served, in milliseconds since its load began. */
export interface Lifetime {
  freshMs: number;
  /** From this age on, a fresh value that is used is loaded again in the background. */
  revalidateMs: number;
  /** For how much longer it is served if its load fails. */
  staleIfErrorMs: number;
}

export interface CacheOptions<Value, Context> {
  /** Loads a value for a request; `known` is the stale value, if there is one. Undefined is not kept, and removes what was. */
  load(key: string, context: Context, known: Value | undefined): Promise<Value>;
  lifetimeOf(value: Value): Lifetime;
  /** The total of `sizeOf`, by default the number of values. The oldest make room. */
  maxSize: number;
  sizeOf?(value: Value): number;
  /** How long a failed load is not repeated; by default it is. `isStale`: whether a stale value is served meanwhile. */
  failureMs?(error: unknown, isStale: boolean): number;
  /** Is told that a stale value is served, and why. Throws if it must not be. */
  onStale?(context: Context, error: unknown): void;
}

interface Entry<Value> {
  value: Value;
  loadedMs: number;
  lifetime: Lifetime;
}

/** Failures, which are remembered apart: a flood of keys that can't be loaded must not evict values. */
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

  /** Whether a value of this key is here, however old. */
  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /**
   * The value of a key, at once if it is fresh, or if `mayBeStale` says so of one that is not. Rejects like `load`, or with its
   * remembered failure.
   */
  get(key: string, context: Context, mayBeStale?: (value: Value) => boolean): Value | Promise<Value> {
    const entry = this.#entries.get(key);
    if (entry === undefined) return this.#load(key, context, entry);
    const { value, loadedMs, lifetime } = entry;
    const ageMs = ageOf(loadedMs);
    if (ageMs < lifetime.revalidateMs || mayBeStale?.(value)) return value;
    if (ageMs >= lifetime.freshMs) return this.#load(key, context, entry);
    // If this fails, the request that needs the value finds out.
    if (!this.#flights.isUnderway(key)) waitUntil(this.#reload(key, context, value).catch(() => {}));
    return value;
  }

  /** Keeps a value whose load began at `loadedMs` (Unix time), or forgets that there was one. */
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
      if (!isPaused) this.#failures.set(key, { error, atMs: Date.now() });
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

/** Milliseconds since `atMs` (Unix time). */
function ageOf(atMs: number): number {
  const nowMs = Date.now();
  return atMs <= nowMs ? nowMs - atMs : Number.POSITIVE_INFINITY;
}
