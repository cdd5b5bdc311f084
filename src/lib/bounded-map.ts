// A FIFO-bounded cache: callers must tolerate eviction.

/** Evicts this share at once: a new iterator first skips the thousands of deleted entries that earlier evictions have left. */
const EVICTED_SHARE = 1 / 16;

export class BoundedMap<Key, Value> {
  readonly #entries = new Map<Key, Value>();
  readonly #maxSize: number;
  readonly #sizeOf: (value: Value) => number;
  #size = 0;

  /** `maxSize`: the largest sum of `sizeOf` over all values; by default their number. Beyond it, the oldest are evicted. */
  constructor(maxSize: number, sizeOf: (value: Value) => number = () => 1) {
    this.#maxSize = maxSize;
    this.#sizeOf = sizeOf;
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  delete(key: Key): void {
    const value = this.#entries.get(key);
    if (value === undefined) return;
    this.#entries.delete(key);
    this.#size -= this.#sizeOf(value);
  }

  /** Stores a value as the newest. */
  set(key: Key, value: Value): void {
    this.delete(key);
    this.#entries.set(key, value);
    this.#size += this.#sizeOf(value);
    if (this.#size <= this.#maxSize) return;
    const remainingSize = this.#maxSize - Math.floor(this.#maxSize * EVICTED_SHARE);
    for (const oldest of this.#entries.keys()) {
      if (this.#size <= remainingSize) return;
      this.delete(oldest);
    }
  }
}
