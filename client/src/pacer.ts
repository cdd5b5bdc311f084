// Decides when requests may be sent, so that none is refused. It counts down by itself, because calls run in parallel and responses
// come in any order, and corrects itself by each response. If nobody else uses the key, its count is exact: it admits no request too
// many and none too few. Times are of performance.now().
//
// Requests wait with timers of their own and never for each other's promises, which Workers don't allow across requests.

import { type RateLimit, WINDOW_MS, type WindowName } from "./rate-limit.ts";

interface Window {
  limit: number;
  resetMs: number;
  /** What is left if nobody else uses the key, after all requests that were sent. */
  own: number;
  /** What is left by the response to the latest request that was answered, after those sent since. */
  shown: number;
  shownBy: number;
}

/** A request that was sent. */
export interface Sent {
  number: number;
  /** The number of requests that had been answered before it was sent. */
  answeredBefore: number;
}

/** In how long a waiting request should ask again, and probably be sent, if that can be known. */
export interface Delay {
  askAgainMs: number;
  totalMs?: number;
}

/** Before the first response, only one request is under way. */
const POLL_MS = 20;

export class Pacer {
  readonly #windows = new Map<WindowName, Window>();
  /** In order of arrival, so that earlier calls are sent first. */
  readonly #waiting = new Set<object>();
  #sent = 0;
  #answered = 0;

  /** Joins the queue. */
  enter(): object {
    const place = {};
    this.#waiting.add(place);
    return place;
  }

  leave(place: object): void {
    this.#waiting.delete(place);
  }

  /** How long the request must wait; undefined if it may be sent now. */
  delay(place: object, nowMs: number): Delay | undefined {
    const ahead = [...this.#waiting].indexOf(place);
    const underway = this.#sent - this.#answered;
    if (this.#windows.size === 0) {
      return ahead + underway === 0 ? undefined : { askAgainMs: POLL_MS };
    }
    let delay: Delay | undefined;
    for (const [name, window] of this.#windows) {
      if (nowMs >= window.resetMs) {
        // A new window. Requests under way may count in it.
        window.resetMs += Math.floor((nowMs - window.resetMs) / WINDOW_MS[name] + 1) * WINDOW_MS[name];
        window.own = window.shown = window.limit - underway;
        window.shownBy = this.#sent;
      }
      const missing = ahead - Math.min(window.own, window.shown);
      if (missing < 0) continue;
      const askAgainMs = window.resetMs - nowMs;
      const totalMs = askAgainMs + Math.floor(missing / window.limit) * WINDOW_MS[name];
      delay = {
        askAgainMs: Math.max(askAgainMs, delay?.askAgainMs ?? 0),
        totalMs: Math.max(totalMs, delay?.totalMs ?? 0),
      };
    }
    return delay;
  }

  /** Records that a request is sent. */
  send(): Sent {
    for (const window of this.#windows.values()) {
      window.own -= 1;
      window.shown -= 1;
    }
    this.#sent += 1;
    return { number: this.#sent, answeredBefore: this.#answered };
  }

  /** Records the response to a request, or that there will be none. */
  settle({ number, answeredBefore }: Sent, rateLimit: RateLimit | undefined, nowMs: number): void {
    this.#answered += 1;
    if (rateLimit === undefined) return;
    // The requests that may have been counted after this one.
    const later = this.#sent - 1 - answeredBefore;
    for (const name of ["minute", "day"] as const) {
      const described = rateLimit[name];
      if (described === undefined) continue;
      const { limit, remaining, resetAt } = described;
      const resetMs = nowMs + resetAt.getTime() - Date.now();
      let window = this.#windows.get(name);
      const aheadMs = resetMs - (window?.resetMs ?? 0);
      // A late response of an earlier window.
      if (window && aheadMs < -WINDOW_MS[name] / 2) continue;
      if (window === undefined || aheadMs > WINDOW_MS[name] / 2) {
        window = { limit, resetMs, own: -Infinity, shown: 0, shownBy: 0 };
        this.#windows.set(name, window);
      }
      window.limit = limit;
      // It is rounded up.
      window.resetMs = Math.min(window.resetMs, resetMs);
      window.own = Math.max(window.own, remaining - later);
      if (number > window.shownBy) {
        window.shown = remaining;
        window.shownBy = number;
      }
    }
  }
}
