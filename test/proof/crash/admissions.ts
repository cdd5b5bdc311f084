// What the limited key was let in for, minute by minute, and how much of each minute may be burnt by the kills in it.

import { LEASE_SHARE } from "../../../src/rate-limit/lease.ts";

export const LIMIT = 150;

/** Of one minute: what may be stored ahead, in all lives of the object together. */
const MAX_AHEAD = Math.floor(LIMIT / 20);

/** One life of an isolate seldom holds more leases than this. */
const LEASES = 2;

/**
 * With so much left of a minute or less, but some, a kill shows most: there are no leases any more, the loss of which would
 * make up for what was forgotten.
 */
const NEARLY_USED_UP = { atMost: 2 * LEASE_SHARE - 1, atLeast: 5 };

const MINUTE_MS = 60_000;

/** What was counted before a kill can be of the minute before. */
const LATE_MS = 1_000;

/** A minute of the limit. */
export interface Minute {
  endsAt: string;
  admitted: number;
  isUsedUp: boolean;
  kills: number;
  mayBeBurnt: number;
}

interface Kill {
  atMs: number;
  /** What was left of each minute then, at most, by its end in seconds of Unix time. */
  leftOf(endsAtSeconds: number): number;
}

export class Admissions {
  /** By the end of the minute, in seconds of Unix time. */
  readonly #admitted = new Map<number, number>();
  readonly #usedUp = new Set<number>();
  readonly #killedNearEnd = new Set<number>();
  readonly #kills: Kill[] = [];
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
    const admitted = new Map(this.#admitted);
    this.#kills.push({ atMs, leftOf: (endsAtSeconds) => LIMIT - (admitted.get(endsAtSeconds) ?? 0) });
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
      const kills = this.#kills.filter(({ atMs }) => minutesEnding(atMs).includes(end));
      const leased = kills.map(({ leftOf }) => LEASES * Math.floor(Math.max(0, leftOf(end)) / LEASE_SHARE));
      const burnt = leased.reduce((sum, each) => sum + each + this.#readers, MAX_AHEAD);
      return {
        endsAt: new Date(end * 1000).toISOString().slice(11, 19),
        admitted: this.#admitted.get(end) ?? 0,
        isUsedUp: this.#usedUp.has(end),
        kills: kills.length,
        mayBeBurnt: Math.min(LIMIT, burnt),
      };
    });
  }
}

/** The ends of the minutes that what is burnt at this time can be of, in seconds of Unix time. */
function minutesEnding(atMs: number): number[] {
  return [atMs - LATE_MS, atMs].map((ms) => (Math.floor(ms / MINUTE_MS) + 1) * (MINUTE_MS / 1000));
}
