// The admissions of the limited key by minute, and how many requests kills may cost in each minute.

export const LIMIT = 150;

/** The most that a kill may cost besides requests under way: all leases together are at most 1/16 of the remaining requests. */
const MAX_LEASED = Math.floor(LIMIT / 16);

/**
 * With so few requests left in a minute, there are no leases, whose loss would hide forgotten requests. So a kill is most
 * telling then.
 */
const NEARLY_USED_UP = { atMost: LIMIT / 4 - 1, atLeast: 5 };

const MINUTE_MS = 60_000;

/** Requests before a kill may have been counted in the previous minute. */
const LATE_MS = 1_000;

/** A minute of the limited key. */
export interface Minute {
  endsAt: string;
  admitted: number;
  isUsedUp: boolean;
  kills: number;
  maxLost: number;
}

export class Admissions {
  /** By the end of the minute, in seconds of Unix time. */
  readonly #admitted = new Map<number, number>();
  readonly #usedUp = new Set<number>();
  readonly #killedNearEnd = new Set<number>();
  readonly #killsMs: number[] = [];
  readonly #readers: number;

  /** `readers`: the most requests under way at a kill, each of which may have been counted. */
  constructor(readers: number) {
    this.#readers = readers;
  }

  admit(endsAtSeconds: number): void {
    this.#admitted.set(endsAtSeconds, (this.#admitted.get(endsAtSeconds) ?? 0) + 1);
  }

  refuse(endsAtSeconds: number): void {
    this.#usedUp.add(endsAtSeconds);
  }

  kill(atMs: number): void {
    this.#killsMs.push(atMs);
  }

  get total(): number {
    return [...this.#admitted.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Whether to kill now, once per nearly used-up minute. `endsAtSeconds` is the end of the minute. */
  isTimeToKill(endsAtSeconds: number): boolean {
    const left = LIMIT - (this.#admitted.get(endsAtSeconds) ?? 0);
    const isNear = left <= NEARLY_USED_UP.atMost && left >= NEARLY_USED_UP.atLeast;
    if (!isNear || this.#killedNearEnd.has(endsAtSeconds)) return false;
    this.#killedNearEnd.add(endsAtSeconds);
    return true;
  }

  get wasUsedUp(): boolean {
    return this.#usedUp.size > 0;
  }

  /** The minutes with admissions or refusals. */
  minutes(): Minute[] {
    const ends = [...new Set([...this.#admitted.keys(), ...this.#usedUp])].sort((a, b) => a - b);
    return ends.map((end) => {
      const kills = this.#killsMs.filter((atMs) => minutesEnding(atMs).includes(end));
      return {
        endsAt: new Date(end * 1000).toISOString().slice(11, 19),
        admitted: this.#admitted.get(end) ?? 0,
        isUsedUp: this.#usedUp.has(end),
        kills: kills.length,
        maxLost: Math.min(LIMIT, kills.length * (MAX_LEASED + this.#readers)),
      };
    });
  }
}

/** The ends of the minutes that a kill at this time can affect, in seconds of Unix time. */
function minutesEnding(atMs: number): number[] {
  return [atMs - LATE_MS, atMs].map((ms) => (Math.floor(ms / MINUTE_MS) + 1) * (MINUTE_MS / 1000));
}
