// How long requests have waited before their object could count them: in their isolate, and for the record.

const SECOND_MS = 1_000;

export class Delays {
  /** The beginnings of waits that have not ended (Unix time). */
  readonly #waiting = new Set<{ sinceMs: number }>();
  /** The longest wait that ended in a second, and in the one before. */
  #second = 0;
  #ms = 0;
  #beforeMs = 0;

  /** Begins a wait that has lasted since `sinceMs`. Returns a function that ends it (both Unix time). */
  begin(sinceMs: number): (nowMs: number) => void {
    const wait = { sinceMs };
    this.#waiting.add(wait);
    return (nowMs) => {
      this.#waiting.delete(wait);
      this.#turn(nowMs);
      this.#ms = Math.max(this.#ms, nowMs - sinceMs);
    };
  }

  /**
   * The longest wait of a call that has not ended, or that ended in this second or the one before: other requests of its isolate may
   * still wait, and are sent by the next call.
   */
  longestMs(nowMs: number): number {
    this.#turn(nowMs);
    let longestMs = Math.max(this.#ms, this.#beforeMs);
    for (const { sinceMs } of this.#waiting) longestMs = Math.max(longestMs, nowMs - sinceMs);
    return longestMs;
  }

  #turn(nowMs: number): void {
    const second = Math.floor(nowMs / SECOND_MS);
    if (second === this.#second) return;
    this.#beforeMs = second === this.#second + 1 ? this.#ms : 0;
    this.#second = second;
    this.#ms = 0;
  }
}
