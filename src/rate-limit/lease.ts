// Leases: requests of a key that an isolate may admit by itself, so that a client who asks often does not wait for the
// key's object each time. The object counts a lease as used, in both windows, when it grants it; what is left over is
// given back. So however many leases there are, and whatever becomes of them, nobody is let in who was not counted before.
//
// A lease ends before the minute it was counted in, however far the clocks of isolate and object are apart. The isolate
// measures its time from before it asks, by its clock and by a timer, which does not step; the object grants it only if all
// of that time is in the minute. Only if the object's own clock steps can one outlast its minute: it is then counted where
// its answers say, and nowhere else. A lease is small beside what is left, and there is none when little is left: what one
// isolate holds is missing elsewhere, for less than a second.

import { resetMs, room, type Window } from "./window.ts";

export const LEASES_ENABLED: boolean = true;

/** The longest that a lease lasts. With its way back, that is within the second for which it may be missing elsewhere. */
export const LEASE_MS = 800;

/** How long before its minute ends a lease does, at least: by as much a timer may be late. */
const MARGIN_MS = 5;

/** A shorter lease is over before it has come. */
const MIN_MS = 5;

/** Of what is left of the window that has less left, a lease gets one in so many. */
export const LEASE_SHARE = 16;

/** Fewer are not worth a lease. */
const MIN_SIZE = 2;

/** What an isolate wishes for first, if more than one request in the time of a lease has come. */
const FIRST_WISH = 4;

/** How much more than was used lately is wished for, and how much more than last time at most. */
const HEADROOM = 1.5;
const MAX_GROWTH = 8;

/** What was used in less time than this tells nothing of a rate. */
const MIN_SAMPLE_MS = 50;

/** When a lease is renewed though there is enough left of it: this long before it ends, besides the time of 1½ calls. */
const RENEWED_BEFORE_MS = 100;
const RENEWED_BEFORE_CALLS = 1.5;

/** What is given back with one call. In an outage longer than that list, the rest stays counted. */
const MAX_UNUSED = 16;

/** A lease as the object grants it. It has the id of the take that asked for it. */
export interface Lease {
  id: string;
  size: number;
  /** When it was counted, by the clock of the object (Unix time). */
  atMs: number;
  forMs: number;
}

/** So many of a lease were not used, and never will be. */
export interface Unused {
  id: string;
  count: number;
}

/** The same, with when the lease was counted, by the clock of the object (Unix time). */
interface LeftOver extends Unused {
  atMs: number;
}

/** The lease that an isolate would like. */
export interface Wish {
  size: number;
  forMs: number;
}

export const NO_WISH: Wish = { size: 0, forMs: 0 };

/** The lease that a wish is granted, if any. `windows` are as of `nowMs` (Unix time, of the object). */
export function grant(id: string, wish: Wish, windows: readonly Window[], nowMs: number): Lease | undefined {
  const size = Math.min(wish.size, Math.floor(room(windows) / LEASE_SHARE));
  const forMs = Math.min(wish.forMs, LEASE_MS);
  const hasTime = windows.every((window) => nowMs + forMs + MARGIN_MS <= resetMs(window));
  return LEASES_ENABLED && size >= MIN_SIZE && hasTime ? { id, size, atMs: nowMs, forMs } : undefined;
}

interface HeldLease extends Lease {
  left: number;
  /** By the clock of the isolate, before it asked (Unix time). */
  askedAtMs: number;
  /** By the same: when it came, and when it is time to ask for the next one. */
  cameAtMs: number;
  dueAtMs: number;
}

/** The leases of one key that one isolate holds. All times are of the isolate's clock (Unix time). */
export class HeldLeases {
  /** The oldest first; it is used up first. */
  readonly #held: HeldLease[] = [];
  #latest: HeldLease | undefined;
  /** How many were used, of whatever lease, since the latest came. */
  #uses = 0;
  #lastUseMs = 0;
  /** To be given back: what was left of leases, and what may have been granted by an answer that was lost. */
  #leftOver: LeftOver[] = [];
  #lost: Unused[] = [];

  /** Takes over a lease that was asked for at `askedAtMs`. */
  add(lease: Lease, askedAtMs: number, nowMs: number): void {
    const beforeMs = RENEWED_BEFORE_MS + RENEWED_BEFORE_CALLS * Math.max(0, nowMs - askedAtMs);
    const dueAtMs = askedAtMs + Math.max(lease.forMs / 2, lease.forMs - beforeMs);
    this.#latest = { ...lease, left: lease.size, askedAtMs, cameAtMs: nowMs, dueAtMs };
    this.#held.push(this.#latest);
    this.#uses = 0;
  }

  /** Uses one request up, if there is a lease for it. */
  use(nowMs: number): boolean {
    let [oldest] = this.#held;
    while (oldest !== undefined && !this.#isGood(oldest, nowMs)) {
      this.end(oldest.id);
      [oldest] = this.#held;
    }
    this.#lastUseMs = nowMs;
    if (oldest === undefined) return false;
    this.#uses += 1;
    oldest.left -= 1;
    if (oldest.left === 0) this.end(oldest.id);
    return true;
  }

  /** Whether there is time left of a lease. After a step of the clock back nobody knows how old one is. */
  #isGood({ askedAtMs, forMs }: HeldLease, nowMs: number): boolean {
    return this.#lastUseMs <= nowMs && askedAtMs <= nowMs && nowMs < askedAtMs + forMs;
  }

  /** Ends a lease, unless it has ended: it is used up, or its time is over. */
  end(id: string): void {
    const index = this.#held.findIndex((held) => held.id === id);
    const [ended] = index === -1 ? [] : this.#held.splice(index, 1);
    if (ended === undefined) return;
    const leftOver = { id, count: ended.left, atMs: ended.atMs };
    this.#leftOver = [...this.#leftOver, leftOver].slice(-MAX_UNUSED);
  }

  /** Ends all leases: the windows that they were counted in are over, as the object says. */
  endAll(): void {
    for (const { id } of [...this.#held]) this.end(id);
  }

  /** An answer was lost, which may have granted this lease. */
  lose(id: string, size: number): void {
    this.#lost = [...this.#lost, { id, count: size }].slice(-MAX_UNUSED);
  }

  /** What is to be given back, and which leases are used up. */
  get unused(): readonly Unused[] {
    return this.#lost.length === 0 ? this.#leftOver : [...this.#leftOver, ...this.#lost];
  }

  /** The object has been told. */
  gaveBack(unused: readonly Unused[]): void {
    const isOpen = (each: Unused) => !unused.includes(each);
    this.#leftOver = this.#leftOver.filter(isOpen);
    this.#lost = this.#lost.filter(isOpen);
  }

  /**
   * How many requests the object has counted in the window that began at `startMs` (Unix time, of the object), as far as
   * is known here, that were not let in, or not yet.
   */
  notUsedSince(startMs: number): number {
    let notUsed = 0;
    for (const { atMs, left } of this.#held) if (atMs >= startMs) notUsed += left;
    for (const { atMs, count } of this.#leftOver) if (atMs >= startMs) notUsed += count;
    return notUsed;
  }

  /** Whether half of the latest lease was used, or it will soon be over. */
  isDue(nowMs: number): boolean {
    if (this.#latest === undefined) return false;
    return this.#latest.left <= this.#latest.size / 2 || nowMs >= this.#latest.dueAtMs;
  }

  /**
   * What to wish for if so many requests are waiting, and the minute will last so long by the clock of the object: as many
   * as were lately used in the time of a lease, and some more. Near the end of the minute only for half of the time that is
   * left, so that the lease is still all in it when the object hears of it.
   */
  wish(nowMs: number, requests: number, minuteLeftMs: number): Wish {
    const leftMs = minuteLeftMs - MARGIN_MS;
    const forMs = Math.min(LEASE_MS, Math.floor(leftMs / 2));
    if (!LEASES_ENABLED || forMs < MIN_MS) return NO_WISH;
    return { size: this.#wishedSize(nowMs, requests), forMs };
  }

  #wishedSize(nowMs: number, requests: number): number {
    const least = Math.max(FIRST_WISH, requests);
    if (this.#latest === undefined || nowMs - this.#latest.askedAtMs >= 2 * LEASE_MS) return least;
    const { size, cameAtMs } = this.#latest;
    const inLeaseTime = (this.#uses * LEASE_MS) / Math.max(MIN_SAMPLE_MS, nowMs - cameAtMs);
    return Math.max(least, Math.min(Math.ceil(HEADROOM * inLeaseTime), MAX_GROWTH * size));
  }
}
