// What is left of the limits of the key, by responses and by requests without one. It never makes requests or waits.
//
// The smallest number that a response of a window has shown includes every request that was answered. Others may be included or not:
// those under way, and lost ones, which can still arrive at the service for some seconds. They count until a response shows otherwise.
//
// More than all of these are others' requests. Then the client leaves them room: it spreads its first requests after a wait, and has a part
// of what is left under way.

import type { PetstoreError } from "./errors.ts";
import type { RateLimit } from "./rate-limit.ts";
import { now } from "./waits.ts";

/** Larger: after an outage, requests are admitted later. Smaller: a request that was lost may arrive nevertheless, and be counted then. */
const MAX_TRANSIT_MS = 10_000;

/** Larger: of programs that start at once with one key, more requests are refused. Smaller: a program starts slower. */
const MAX_UNKNOWN = 4;

/** Of what is left, a client has a part under way if others use the key. Larger: slower. Smaller: more refusals if they are as many. */
const PARTS = 8;

/**
 * Over how long requests are spread after a wait. Larger: calls are later. Smaller: a program that comes late, because Retry-After is rounded
 * up to a second, finds nothing left, and is not seen by the others.
 */
const SPREAD_MS = 2_000;
/** The same, of a part of the limit, if others are known to use the key. Smaller: the first of many programs leave nothing for the last. */
const SHARED_SPREAD_MS = 5_000;

/** Stands for a limit that is not known. */
const UNKNOWN_LIMIT = 40;

/** Times are those of now(). */
interface Window {
  limit: number;
  lengthMs: number;
  /** The next window has begun by then. */
  resetMs: number;
  /** The fewest requests that a response has shown to be left. */
  shown: number;
  /** Since when it is known. */
  knownMs: number;
  /** Own requests that it may include, and those of them that were answered. */
  sent: number;
  answered: number;
  /** The fewest requests of others that it includes, and how many of them were there when it became known. */
  others: number;
  othersAtFirst: number;
  /** Whether others used the key in the window before. */
  wasShared: boolean;
  /** Whether all that it shows as used may be others', because it was not known from its beginning. */
  isUnsure: boolean;
}

/** Longer than any window of the service. A Retry-After that says more is another server's. */
const MAX_REFUSAL_MS = 86_400_000;

/** How long no request can be admitted, in ms. */
export interface Closed {
  /** Until the next window begins, or Retry-After is over. */
  nextMs: number;
  /** Until the request is admitted, with further windows for those ahead of it. */
  totalMs: number;
  /** The response that said so, or the name of the window that is used up. */
  refusal?: PetstoreError | undefined;
  window?: string;
}

export class Limits {
  /** By the latest response. */
  latest: RateLimit | undefined;
  /** Requests that have no response yet. */
  underway = 0;
  /** Whether there was a response, which may not have shown limits. */
  isAnswered = false;
  /** When GET /v1/usage was asked last, with or without success. */
  usageAskedMs: number = -Infinity;
  readonly #windows = new Map<string, Window>();
  /** When each request was lost that responses may not include. */
  #lostMs: number[] = [];
  #refusedUntilMs = -Infinity;
  /** When a wait was over, the requests since then, and a chance that differs between clients. */
  #spreadFromMs = -Infinity;
  #spreadSent = 0;
  #chance: number | undefined;
  #refusal: PetstoreError | undefined;

  get isKnown(): boolean {
    return this.#windows.size > 0;
  }

  /** Records that no request may be sent for that long, because of a response: at most a day, the longest time of the service's. */
  refuse(waitMs: number, refusal: PetstoreError): void {
    const untilMs = now() + Math.min(waitMs, MAX_REFUSAL_MS);
    if (untilMs <= this.#refusedUntilMs) return;
    this.#refusedUntilMs = untilMs;
    this.#refusal = refusal;
    this.#spread(untilMs);
    const window = this.#shortest();
    if (window && refusal.status === 429) window.others = Math.max(window.others, window.othersAtFirst + 1);
  }

  /** How long a request behind `queued` others is not admitted, unless one under way is lost. Undefined: perhaps now. */
  closed(queued: number, nowMs: number): Closed | undefined {
    this.#roll(nowMs);
    const waitMs = this.#refusedUntilMs - nowMs;
    let closed: Closed | undefined;
    if (waitMs > 0)
      closed = { nextMs: waitMs, totalMs: waitMs + this.#spreadMs(queued), refusal: this.#refusal };
    for (const [window, { limit, lengthMs, resetMs, shown, answered, others }] of this.#windows) {
      const underwayShown = Math.max(0, limit - shown - others - answered);
      const ahead = queued + Math.max(0, this.underway - underwayShown);
      if (ahead < shown) continue;
      const nextMs = Math.max(closed?.nextMs ?? 0, resetMs - nowMs);
      const furtherWindows = Math.ceil((ahead - shown + 1) / limit) - 1;
      const inWindowMs = this.#spreadMs(ahead - shown - furtherWindows * limit || 0);
      const totalMs = Math.max(closed?.totalMs ?? 0, nextMs + furtherWindows * lengthMs + inWindowMs);
      closed = { ...closed, nextMs, totalMs, window };
    }
    return closed;
  }

  /**
   * Whether one more request is admitted, also if all those without a response are counted, and the others that use the key send some at
   * the same time.
   */
  hasRoom(nowMs: number): boolean {
    this.#roll(nowMs);
    const window = this.#shortest();
    if (!window) return this.isAnswered || this.underway < MAX_UNKNOWN;
    const part = Math.min(...Array.from(this.#windows.values(), ({ shown }) => shown)) / PARTS;
    const ofUnsure = window.isUnsure ? Math.max(part, MAX_UNKNOWN) : Infinity;
    if (this.underway >= (isShared(window) ? part : ofUnsure)) return false;
    for (const { shown, resetMs, lengthMs } of this.#windows.values()) {
      const sinceMs = resetMs - lengthMs - MAX_TRANSIT_MS;
      const lost = this.#lostMs.filter((lostMs) => lostMs > sinceMs).length;
      if (shown <= this.underway + lost) return false;
    }
    return true;
  }

  /** How long the next request has to wait, because the first ones after a wait are spread. */
  spreadMs(nowMs: number): number {
    return this.#spreadFromMs + this.#spreadMs(this.#spreadSent) - nowMs;
  }

  /** Records that a request of this client is sent. */
  send(): void {
    this.underway += 1;
    this.#spreadSent += 1;
    for (const window of this.#windows.values()) window.sent += 1;
  }

  /** When GET /v1/usage shows what is left, because the limits are unknown or only lost requests use them up (now()). */
  usageDueMs(): number {
    return Math.max(this.usageAskedMs, this.#lostMs.at(-1) ?? -Infinity) + MAX_TRANSIT_MS;
  }

  /** Records that a request was lost: it may be counted or not. */
  lose(nowMs: number): void {
    // The first response will include earlier ones.
    if (!this.isKnown) this.#forgetLost(nowMs);
    this.#lostMs.push(nowMs);
  }

  /** Records a response to a request that was sent at `sentMs`, when its headers arrive. `isCounted`: it was one of those under way. */
  answer(sentMs: number, rateLimit: RateLimit, isCounted: boolean): void {
    if (isCounted) this.underway -= 1;
    this.latest = rateLimit;
    const windows = Object.entries(rateLimit);
    // One window is not that of a key, which has several: the request was not counted in it.
    if (windows.length < 2) return;
    this.#forgetLost(sentMs);
    const nowMs = now();
    // Steps of the clock must not move the window.
    const clockMs = nowMs - Date.now();
    for (const [name, { limit, remaining, resetAt, lengthMs }] of windows) {
      const resetMs = resetAt.getTime() + clockMs;
      let window = this.#windows.get(name);
      const laterMs = resetMs - (window?.resetMs ?? -Infinity);
      const halfMs = lengthMs / 2;
      if (window?.limit === limit && Math.abs(laterMs) < halfMs) {
        window.shown = Math.min(window.shown, remaining);
        // It is rounded up.
        window.resetMs = Math.min(window.resetMs, resetMs);
      } else if (laterMs > halfMs || sentMs >= (window?.knownMs ?? 0)) {
        // Not a late response of an earlier window. The reset can be earlier nevertheless: during a ban, it was the end of the ban.
        const sent = this.underway + (isCounted ? 1 : 0);
        const others = Math.max(0, limit - remaining - sent);
        const wasShared = window ? hasOthers(window) : false;
        const known = { limit, lengthMs, resetMs, shown: remaining, knownMs: nowMs };
        window = { ...known, sent, answered: 0, others, othersAtFirst: others, wasShared, isUnsure: true };
        this.#windows.set(name, window);
      } else continue;
      if (isCounted) window.answered += 1;
      window.others = Math.max(window.others, limit - remaining - window.sent);
      if (limit - window.shown <= window.answered) window.isUnsure = false;
    }
  }

  /** Forgets requests whose count a response to a request of that time includes. */
  #forgetLost(sentMs: number): void {
    this.#lostMs = this.#lostMs.filter((lostMs) => sentMs - lostMs < MAX_TRANSIT_MS);
  }

  /** Begins the windows of now. */
  #roll(nowMs: number): void {
    for (const window of this.#windows.values()) {
      if (nowMs < window.resetMs) continue;
      const { limit, lengthMs, shown } = window;
      const sent = this.underway + this.#lostMs.length;
      window.resetMs += Math.floor((nowMs - window.resetMs) / lengthMs + 1) * lengthMs;
      // Calls may have waited for it.
      if (shown <= sent) this.#spread(window.resetMs - lengthMs);
      const none = { answered: 0, others: 0, othersAtFirst: 0, isUnsure: false };
      Object.assign(window, { shown: limit, knownMs: nowMs, sent, wasShared: hasOthers(window), ...none });
    }
  }

  #spread(fromMs: number): void {
    if (fromMs <= this.#spreadFromMs) return;
    this.#spreadFromMs = fromMs;
    this.#spreadSent = 0;
  }

  /** How long after a wait a request is sent that has so many before it. */
  #spreadMs(before: number): number {
    const window = this.#shortest();
    const { limit } = window ?? { limit: UNKNOWN_LIMIT };
    const isLong = !window || isShared(window);
    const [spreadMs, requests] = isLong ? [SHARED_SPREAD_MS, limit / PARTS] : [SPREAD_MS, limit];
    this.#chance ??= Math.random();
    return Math.min(spreadMs, ((before + this.#chance) * spreadMs) / Math.max(1, requests));
  }

  #shortest(): Window | undefined {
    let shortest: Window | undefined;
    for (const window of this.#windows.values())
      if (!shortest || window.lengthMs < shortest.lengthMs) shortest = window;
    return shortest;
  }
}

/** Whether others have used the key in this window since it is known. */
function hasOthers({ others, othersAtFirst }: Window): boolean {
  return others > othersAtFirst;
}

/** Whether others use the key at the same time: in this window, or in the one before. */
function isShared(window: Window): boolean {
  return window.wasShared || hasOthers(window);
}
