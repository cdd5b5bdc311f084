// Decides when requests may be sent, so that none is refused. It counts down by itself, because calls run in parallel and responses
// come in any order, and corrects itself by each response. If nobody else uses the key and no response is lost, its count is exact:
// it admits no request too many and none too few. Times are of performance.now().
//
// Requests wait with timers of their own and never for each other's promises, which Workers don't allow across requests.

import { type RateLimit, WINDOW_MS, type WindowName } from "./rate-limit.ts";

interface Window {
  limit: number;
  /** The next window has begun by then. */
  resetMs: number;
  /** The fewest that a response has shown to be left. */
  least: number;
  /** At least as many are left, if nobody else uses the key. */
  own: number;
  /** At most as many are left: by the response to the latest request that was answered, after those sent since. */
  shown: number;
  /** The number of that request, or of the latest one that was sent before the window was known. */
  latest: number;
}

/** In how long a waiting request should ask again, and probably be sent, if that can be known. */
export interface Delay {
  askAgainMs: number;
  totalMs?: number;
}

/** For requests that wait until a response shows how many are left. */
const POLL_MS = 20;

export class Pacer {
  readonly #windows = new Map<WindowName, Window>();
  /** In order of arrival, so that earlier calls are sent first. */
  readonly #waiting = new Set<object>();
  #sent = 0;
  #underway = 0;
  /** Requests without a response, which may have been counted. The response to a request that was sent later shows it. */
  #lost = 0;
  /** How many requests had been sent when the last one was lost. */
  #sentAtLoss = 0;

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
    const poll = ahead + this.#underway > 0 ? { askAgainMs: POLL_MS } : undefined;
    // Only one request is under way before the first response.
    let delay: Delay | undefined = this.#windows.size > 0 ? undefined : poll;
    for (const [name, window] of this.#windows) {
      if (nowMs >= window.resetMs) {
        window.resetMs += Math.floor((nowMs - window.resetMs) / WINDOW_MS[name] + 1) * WINDOW_MS[name];
        window.least = window.shown = window.limit;
        // The others may count in the new window.
        window.own = window.limit - this.#undecided;
        window.latest = this.#sent;
      }
      const missing = ahead - Math.min(window.own, window.shown);
      if (missing < 0) continue;
      if (ahead < window.shown && this.#undecided > 0) {
        // A response will show whether there is room. If none is to come, the first request is sent to get one.
        delay ??= poll;
        continue;
      }
      const askAgainMs = window.resetMs - nowMs;
      const totalMs = askAgainMs + Math.floor(missing / window.limit) * WINDOW_MS[name];
      delay = {
        askAgainMs: Math.max(askAgainMs, delay?.askAgainMs ?? 0),
        totalMs: Math.max(totalMs, delay?.totalMs ?? 0),
      };
    }
    return delay;
  }

  /** Records that a request is sent. Returns its number. */
  send(): number {
    for (const window of this.#windows.values()) {
      window.own -= 1;
      window.shown -= 1;
    }
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
    } else if (rateLimit.day && number > this.#sentAtLoss) this.#lost = 0;
    for (const name of ["minute", "day"] as const) {
      let window = this.#windows.get(name);
      // Without a day, they are not the windows of the key, and the request was not counted.
      const described = rateLimit?.day && rateLimit[name];
      if (described) {
        const { limit, remaining, resetAt } = described;
        const resetMs = resetAt.getTime() + clockMs;
        const aheadMs = resetMs - (window?.resetMs ?? 0);
        const isOther = Math.abs(aheadMs) > WINDOW_MS[name] / 2;
        // A late response of an earlier window. (During a ban, the reset is its end, so a later response may have an earlier one.)
        if (!(window && isOther && aheadMs < 0 && number <= window.latest)) {
          if (!window || isOther || limit !== window.limit) {
            window = {
              limit,
              resetMs,
              least: remaining,
              own: -Infinity,
              shown: remaining,
              latest: this.#sent,
            };
            this.#windows.set(name, window);
          }
          // It is rounded up.
          window.resetMs = Math.min(window.resetMs, resetMs);
          window.least = Math.min(window.least, remaining);
          if (number > window.latest) {
            window.shown = remaining;
            window.latest = number;
          }
        }
      } else if (window && number > window.latest) window.shown = Math.min(window.least, window.shown + 1);
      if (window) window.own = Math.max(window.own, window.least - this.#undecided);
    }
  }

  /** How many requests may be counted after the responses so far. */
  get #undecided(): number {
    return this.#underway + this.#lost;
  }
}
