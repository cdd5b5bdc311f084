// Decides when requests may be sent, so that none is refused and no window is left unused. It counts by itself, because calls run in
// parallel and responses come in any order. If nobody else uses the key and no response is lost, its count is exact.
//
// Waiting requests have timers of their own and ask again, because Workers don't let a request wait for another's promise. If the client
// of a Worker disconnects, the Worker's calls end without any exception. So calls that are overdue are forgotten.

import { type RateLimit, WINDOW_MS, type WindowName } from "./rate-limit.ts";

interface Window {
  limit: number;
  /** The next window has begun by then (performance.now()). */
  resetMs: number;
  /** The fewest requests that a response has shown to be left. */
  left: number;
  /** The number of the latest request that was sent before this window was known. */
  sentBefore: number;
}

/** In how long a waiting request should ask again, and probably be sent, if that is known. */
export interface Delay {
  askAgainMs: number;
  totalMs?: number;
}

/** For requests that wait until a response shows how many are left. Later ones ask less often. */
const POLL_MS = 20;

/** Timers are hardly ever later than this. If one is, its call joins the queue again. */
const MAX_LATE_MS = 2_000;

export class Pacer {
  /** Whether the first request was made, which consumes nothing and shows the limits. */
  isInformed = false;
  readonly #windows = new Map<WindowName, Window>();
  /** In the order of the calls, with the time at which each asks again. */
  readonly #queue = new Map<object, number>();
  /** By number, with the time at which each ends at the latest. */
  readonly #underway = new Map<number, number>();
  #sent = 0;

  /** Joins the queue. */
  enter(): object {
    const place = {};
    this.#queue.set(place, Infinity);
    return place;
  }

  leave(place: object): void {
    this.#queue.delete(place);
  }

  /** How long the request must wait; undefined if it may be sent now. */
  delay(place: object, nowMs: number): Delay | undefined {
    for (const [each, atMs] of this.#underway) if (atMs + MAX_LATE_MS < nowMs) this.#underway.delete(each);
    this.#queue.set(place, Infinity);
    let ahead = 0;
    for (const [each, atMs] of this.#queue) {
      if (each === place) break;
      if (atMs + MAX_LATE_MS < nowMs) this.leave(each);
      else ahead += 1;
    }
    const delay = this.#delay(ahead, nowMs);
    if (delay) this.#queue.set(place, nowMs + delay.askAgainMs);
    return delay;
  }

  #delay(ahead: number, nowMs: number): Delay | undefined {
    let isKnown = this.#windows.size > 0;
    let delay: Required<Delay> | undefined;
    for (const [name, window] of this.#windows) {
      const lengthMs = WINDOW_MS[name];
      if (nowMs >= window.resetMs) {
        window.resetMs += Math.floor((nowMs - window.resetMs) / lengthMs + 1) * lengthMs;
        window.left = window.limit;
        window.sentBefore = this.#sent;
      }
      if (ahead < window.left - this.#underway.size) continue;
      if (this.#underway.size > 0) {
        // They may be counted in `left` already: their responses will show it.
        isKnown = false;
        continue;
      }
      const askAgainMs = Math.max(window.resetMs - nowMs, delay?.askAgainMs ?? 0);
      const windows = Math.floor((ahead - window.left) / window.limit);
      delay = { askAgainMs, totalMs: Math.max(askAgainMs + windows * lengthMs, delay?.totalMs ?? 0) };
    }
    // One request shows what is left.
    const isSent = isKnown || ahead + this.#underway.size === 0;
    return delay ?? (isSent ? undefined : { askAgainMs: POLL_MS + ahead });
  }

  /** Records that a request is sent, which ends at `endMs` at the latest. Returns its number. The place stays until it is left. */
  send(place: object, endMs: number): number {
    this.#queue.set(place, endMs);
    this.#sent += 1;
    this.#underway.set(this.#sent, endMs);
    return this.#sent;
  }

  /** Records the response to a request, or that there will be none. `clockMs` is performance.now() - Date.now() at the response. */
  settle(number: number, rateLimit: RateLimit | undefined, clockMs: number): void {
    this.#underway.delete(number);
    // Without a day, the windows are not those of the key, and the request was not counted in them.
    if (!rateLimit?.day) return;
    for (const [name, { limit, remaining, resetAt }] of Object.entries(rateLimit)) {
      const resetMs = resetAt.getTime() + clockMs;
      const window = this.#windows.get(name as WindowName);
      const laterMs = resetMs - (window?.resetMs ?? -Infinity);
      const halfMs = WINDOW_MS[name as WindowName] / 2;
      if (window?.limit === limit && Math.abs(laterMs) < halfMs) {
        window.left = Math.min(window.left, remaining);
        // It is rounded up.
        window.resetMs = Math.min(window.resetMs, resetMs);
      } else if (laterMs > halfMs || number > (window?.sentBefore ?? 0)) {
        // Not a late response of an earlier window. The reset can be earlier nevertheless: during a ban, it was the end of the ban.
        this.#windows.set(name as WindowName, { limit, resetMs, left: remaining, sentBefore: this.#sent });
      }
    }
  }
}
