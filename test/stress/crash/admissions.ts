// What the limited key was let in for, minute by minute, and how much of each minute may be lost by the kills in it.

export const LIMIT = 150;

/** What a kill may cost, besides requests under way: all leases together are at most a sixteenth of what is left. */
const MAX_LEASED = Math.floor(LIMIT / 16);

/**
 * With so little left of a minute, but some, a kill shows most: there are no leases any more, the loss of which would make up
 * for what was forgotten.
 */
const NEARLY_USED_UP = { atMost: LIMIT / 4 - 1, atLeast: 5 };

const MINUTE_MS = 60_000;

/** What was counted before a kill can be of the minute before. */
const LATE_MS = 1_000;

/** A minute of the limit. */
export interface Minute {
  endsAt: string;
  admitted: number;
  isUsedUp: boolean;
  kills: number;
  mayBeLost: number;
}

export class Admissions {
  /** By the end of the minute, in seconds of Unix time. */
  readonly #admitted = new Map<number, number>();
  readonly #usedUp = new Set<number>();
  readonly #killedNearEnd = new Set<number>();
  readonly #killsMs: number[] = [];
  readonly #readers: number;

  /** `readers`: how many requests there can be under way at a kill, each of which may have been counted. */
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

  /** Whether it is time for the one kill in a minute that has little left. The minute ends at this time, in seconds. */
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

  /** The minutes in which something was let in or refused. */
  minutes(): Minute[] {
    const ends = [...new Set([...this.#admitted.keys(), ...this.#usedUp])].sort((a, b) => a - b);
    return ends.map((end) => {
      const kills = this.#killsMs.filter((atMs) => minutesEnding(atMs).includes(end));
      return {
        endsAt: new Date(end * 1000).toISOString().slice(11, 19),
        admitted: this.#admitted.get(end) ?? 0,
        isUsedUp: this.#usedUp.has(end),
        kills: kills.length,
        mayBeLost: Math.min(LIMIT, kills.length * (MAX_LEASED + this.#readers)),
      };
    });
  }
}

/** The ends of the minutes that what is lost at this time can be of, in seconds of Unix time. */
function minutesEnding(atMs: number): number[] {
  return [atMs - LATE_MS, atMs].map((ms) => (Math.floor(ms / MINUTE_MS) + 1) * (MINUTE_MS / 1000));
}
