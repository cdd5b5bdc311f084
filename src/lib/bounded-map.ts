// A map that forgets its oldest entries instead of growing without end. Isolate memory is a cache here:
// whoever keeps something in such a map must be right, if slower or laxer, when it is gone.

export class BoundedMap<Key, Value> {
  readonly #entries = new Map<Key, Value>();
  readonly #maxEntries: number;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  /** The value of a key; a new one is stored if there is none. */
  getOrAdd(key: Key, make: () => Value): Value {
    const known = this.#entries.get(key);
    if (known !== undefined) return known;
    const value = make();
    this.set(key, value);
    return value;
  }

  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  delete(key: Key): void {
    this.#entries.delete(key);
  }

  /** Stores an entry as the newest one; the oldest makes room for it. */
  set(key: Key, value: Value): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    const oldest = this.#entries.keys().next();
    if (this.#entries.size > this.#maxEntries && !oldest.done) this.#entries.delete(oldest.value);
  }
}
