// Records how a request was decided, and the network hops that it waits for: the entries of Server-Timing.

/** To the object of the key, to the database of keys, and to that of pets. */
type HopName = "object" | "keys" | "pets";

/** Records one request. Times are Unix time in milliseconds. */
export class Timing {
  readonly #arrivedMs: number;
  #limiter: string | undefined;
  #hops: { startMs: number; entries: string[] }[] = [];
  #showsHops = true;

  constructor(arrivedMs: number) {
    this.#arrivedMs = arrivedMs;
  }

  /**
   * The request has been decided now, in one of the ways of DECIDED_BY. Without a valid key its hops are not shown: they would tell more
   * of other keys than the time of a response does.
   */
  decided(by: string, hasKey: boolean): void {
    this.#limiter = `limiter;desc=${by};dur=${this.#sinceMs(this.#arrivedMs)}`;
    this.#showsHops = hasKey;
  }

  /** A hop that began at `sentMs` has ended now. `loadMs`: how long the object has waited for the record of the key meanwhile. */
  hop(name: HopName, sentMs: number, loadMs?: number): void {
    const startMs = Math.max(0, sentMs - this.#arrivedMs);
    const entries = [`${name};start=${startMs};dur=${this.#sinceMs(sentMs)}`];
    if (loadMs !== undefined) entries.push(`record;dur=${loadMs}`);
    this.#hops.push({ startMs, entries });
  }

  /** Records work that is one hop, also if it fails. */
  async time<Result>(name: HopName, work: () => Promise<Result>): Promise<Result> {
    const sentMs = Date.now();
    try {
      return await work();
    } finally {
      this.hop(name, sentMs);
    }
  }

  /** The header of a response that is made now. Hops that end later are not in it. */
  header(): string {
    const hops = this.#hops.toSorted((a, b) => a.startMs - b.startMs).flatMap(({ entries }) => entries);
    const shown = this.#showsHops ? hops : [];
    const total = `total;dur=${this.#sinceMs(this.#arrivedMs)}`;
    return [this.#limiter, ...shown, total].filter((each) => each !== undefined).join(", ");
  }

  /** Not negative, also after the clock has stepped back. */
  #sinceMs(atMs: number): number {
    return Math.max(0, Date.now() - atMs);
  }
}
