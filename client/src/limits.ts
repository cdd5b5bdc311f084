// What is left of the limits of the key, by responses and by requests without one. It never makes requests or waits.
//
// The smallest number that a response of a window has shown includes every request that was answered. Others may be included or not:
// those under way, and lost ones, which can still arrive at the service for some seconds. They count until a response shows otherwise.

import type { PetstoreError } from "./errors.ts";
import { type RateLimit, WINDOW_MS, type WindowName } from "./rate-limit.ts";

/** Larger: after an outage, requests are admitted later. Smaller: a request that was lost may arrive nevertheless, and be counted then. */
const MAX_TRANSIT_MS = 10_000;

interface Window {
  limit: number;
  /** The next window has begun by then (performance.now()). */
  resetMs: number;
  /** The fewest requests that a response has shown to be left. */
  shown: number;
  /** Since when it is known (performance.now()). */
  knownMs: number;
}

/** How long requests can't be sent for certain, in ms. */
export interface Closed {
  /** Until the next window begins, or Retry-After is over. */
  nextMs: number;
  /** Until the request is sent, with further windows for those ahead of it. */
  totalMs: number;
  /** The response that said so. Undefined if windows are used up. */
  refusal?: PetstoreError | undefined;
}

export class Limits {
  /** By the latest response. */
  latest: RateLimit | undefined;
  readonly #windows = new Map<WindowName, Window>();
  /** The numbers of requests that have no response yet. */
  readonly #underway = new Set<number>();
  /** When each request was lost that responses may not include. */
  #lostMs: number[] = [];
  #sent = 0;
  #refusedUntilMs = -Infinity;
  #refusal: PetstoreError | undefined;
  #askedMs = -Infinity;

  /** Whether a response has shown the limits. */
  get isKnown(): boolean {
    return this.#windows.size > 0;
  }

  /** The number of requests that have no response yet. */
  get underway(): number {
    return this.#underway.size;
  }

  /** Records that no request may be sent until then, because of a response. */
  refuse(untilMs: number, refusal: PetstoreError): void {
    if (untilMs <= this.#refusedUntilMs) return;
    this.#refusedUntilMs = untilMs;
    this.#refusal = refusal;
  }

  /** How long a request behind `ahead` others can't be sent, whatever responses show. Undefined if it may be possible now. */
  closed(ahead: number, nowMs: number): Closed | undefined {
    const waitMs = this.#refusedUntilMs - nowMs;
    let closed: Closed | undefined;
    if (waitMs > 0) closed = { nextMs: waitMs, totalMs: waitMs, refusal: this.#refusal };
    for (const [name, window] of this.#windows) {
      const lengthMs = WINDOW_MS[name];
      if (nowMs >= window.resetMs) {
        window.resetMs += Math.floor((nowMs - window.resetMs) / lengthMs + 1) * lengthMs;
        window.shown = window.limit;
        window.knownMs = nowMs;
      }
      if (ahead < window.shown) continue;
      const nextMs = Math.max(closed?.nextMs ?? 0, window.resetMs - nowMs);
      const windows = Math.floor((ahead - window.shown) / window.limit);
      closed = { ...closed, nextMs, totalMs: Math.max(closed?.totalMs ?? 0, nextMs + windows * lengthMs) };
    }
    return closed;
  }

  /** Whether one more request is admitted, also if all those without a response are counted. */
  hasRoom(): boolean {
    for (const [name, { shown, resetMs }] of this.#windows) {
      const sinceMs = resetMs - WINDOW_MS[name] - MAX_TRANSIT_MS;
      const lost = this.#lostMs.filter((lostMs) => lostMs > sinceMs).length;
      if (shown <= this.#underway.size + lost) return false;
    }
    return true;
  }

  /** When GET /v1/usage shows what is left, because the limits are unknown or only lost requests use them up (performance.now()). */
  askMs(): number {
    return Math.max(this.#askedMs, this.#lostMs.at(-1) ?? -Infinity) + MAX_TRANSIT_MS;
  }

  /** Records that GET /v1/usage was asked, with or without success. */
  asked(nowMs: number): void {
    this.#askedMs = nowMs;
  }

  /** Records that a request is sent which consumes the limits. Returns its number. */
  send(): number {
    this.#sent += 1;
    this.#underway.add(this.#sent);
    return this.#sent;
  }

  /** Records that a request has ended without a response of the service. */
  lose(number: number, nowMs: number): void {
    this.#underway.delete(number);
    this.#lostMs.push(nowMs);
  }

  /** Records a response, when its headers arrive. The request has no number if it consumes nothing. */
  answer(number: number | undefined, sentMs: number, rateLimit: RateLimit): void {
    this.latest = rateLimit;
    if (number) this.#underway.delete(number);
    // Without a day, the windows are not those of the key, and the request was not counted in them.
    if (!rateLimit.day) return;
    this.#lostMs = this.#lostMs.filter((lostMs) => sentMs - lostMs < MAX_TRANSIT_MS);
    // Steps of the clock must not move the window.
    const nowMs = performance.now();
    const clockMs = nowMs - Date.now();
    for (const [name, { limit, remaining, resetAt }] of Object.entries(rateLimit) as Entries<RateLimit>) {
      const resetMs = resetAt.getTime() + clockMs;
      const window = this.#windows.get(name);
      const laterMs = resetMs - (window?.resetMs ?? -Infinity);
      const halfMs = WINDOW_MS[name] / 2;
      if (window?.limit === limit && Math.abs(laterMs) < halfMs) {
        window.shown = Math.min(window.shown, remaining);
        // It is rounded up.
        window.resetMs = Math.min(window.resetMs, resetMs);
      } else if (laterMs > halfMs || sentMs >= (window?.knownMs ?? 0)) {
        // Not a late response of an earlier window. The reset can be earlier nevertheless: during a ban, it was the end of the ban.
        this.#windows.set(name, { limit, resetMs, shown: remaining, knownMs: nowMs });
      }
    }
  }
}

type Entries<Values> = { [Name in keyof Values]-?: [Name, NonNullable<Values[Name]>] }[keyof Values][];
