// Decides when requests may be sent, so that none is refused and no window is left unused. It counts by itself, because calls run in
// parallel and responses come in any order. If nobody else uses the key and no response is lost, its count is exact.
//
// Waiting requests have timers of their own and ask again: Workers don't let a request wait for another's promise.

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

/** The place of a request in the queue. */
export interface Place {
  ahead: number;
}

/** In how long a waiting request should ask again, and probably be sent, if that is known. */
export interface Delay {
  askAgainMs: number;
  totalMs?: number;
}

/** For requests that wait until a response shows how many are left. */
const POLL_MS = 20;

export class Pacer {
  readonly #windows = new Map<WindowName, Window>();
  readonly #queue = new Set<Place>();
  #sent = 0;
  #underway = 0;
  /** Requests without a response. They may have been counted, until the response to a request that was sent later shows it. */
  #lost = 0;
  #sentAtLoss = 0;

  /** Joins the queue. Earlier calls are sent first. */
  enter(): Place {
    const place = { ahead: this.#queue.size };
    this.#queue.add(place);
    return place;
  }

  leave({ ahead }: Place): void {
    for (const place of this.#queue) {
      if (place.ahead === ahead) this.#queue.delete(place);
      else if (place.ahead > ahead) place.ahead -= 1;
    }
  }

  /** How long the request must wait; undefined if it may be sent now. */
  delay({ ahead }: Place, nowMs: number): Delay | undefined {
    const undecided = this.#underway + this.#lost;
    let isKnown = this.#windows.size > 0;
    let delay: Required<Delay> | undefined;
    for (const [name, window] of this.#windows) {
      const lengthMs = WINDOW_MS[name];
      if (nowMs >= window.resetMs) {
        window.resetMs += Math.floor((nowMs - window.resetMs) / lengthMs + 1) * lengthMs;
        window.left = window.limit;
        window.sentBefore = this.#sent;
      }
      if (ahead < window.left - undecided) continue;
      if (ahead < window.left) {
        // Those under way may be counted in `left` already.
        isKnown = false;
        continue;
      }
      const askAgainMs = Math.max(window.resetMs - nowMs, delay?.askAgainMs ?? 0);
      const windows = Math.floor((ahead - window.left) / window.limit);
      delay = { askAgainMs, totalMs: Math.max(askAgainMs + windows * lengthMs, delay?.totalMs ?? 0) };
    }
    // One request shows what is left.
    const mayShow = ahead + this.#underway === 0;
    return delay ?? (isKnown || mayShow ? undefined : { askAgainMs: POLL_MS });
  }

  /** Records that a request is sent. Returns its number. */
  send(): number {
    this.#underway += 1;
    this.#sent += 1;
    return this.#sent;
  }

  /** Records the response to a request, or that there will be none. `clockMs` is performance.now() - Date.now() at the response. */
  settle(number: number, rateLimit: RateLimit | undefined, clockMs: number): void {
    this.#underway -= 1;
    if (rateLimit === undefined) {
      this.#lost += 1;
      this.#sentAtLoss = this.#sent;
    }
    // Without a day, the windows are not those of the key, and the request was not counted in them.
    if (!rateLimit?.day) return;
    if (number > this.#sentAtLoss) this.#lost = 0;
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
