// How often an isolate calls one key's object: a few times a second, and after an undecided response when the next lease has ended. All
// times are the isolate's (Unix time).

import type { Runtime } from "../../lib/runtime.ts";
import { type AcquireResult, LATE_MS } from "../protocol.ts";

/** The most calls of one isolate for one key in a second, without retries. More: shorter waits at the end of a window; less: a calmer object. */
export const MAX_CALLS = 5;
/** The last of these is for reports, for which other isolates may wait. */
export const REQUEST_CALLS = MAX_CALLS - 1;
export const SECOND_MS = 1_000;
/** The longest pause after an undecided response. Longer: longer waits; shorter: more calls if the holder of a lease has ended. */
const UNDECIDED_PAUSE_MS = 400;
/** A pause is up to so much longer, so that isolates do not ask at the same time. */
const SPREAD = 0.25;

export class CallPace {
  readonly #runtime: Runtime;
  /** The beginnings of the last calls, and the end of the pause after an undecided response. */
  #calledMs: number[] = [];
  #pausedUntilMs = 0;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  recordCall(sentMs: number): void {
    this.#calledMs = [...this.#calledMs, sentMs].slice(-MAX_CALLS);
  }

  /** How long to wait so that at most `calls` calls begin in a second. */
  pauseMs(calls: number): number {
    const nowMs = this.#runtime.now();
    const pacedMs = (this.#calledMs.at(-calls) ?? Number.NEGATIVE_INFINITY) + SECOND_MS;
    const leftMs = Math.max(pacedMs, this.#pausedUntilMs) - nowMs;
    // More is left only after the clock has stepped back.
    return leftMs <= SECOND_MS ? Math.max(0, leftMs) : 0;
  }

  /**
   * After the undecided response to a call of `sentMs`, sets a pause: until the next lease has ended, longer if that or the object is far
   * away, shorter if a request would have no time left. `patienceMs`: how long each request can wait before its last call.
   */
  pauseAfter({ nowMs: madeMs, retryMs }: AcquireResult, sentMs: number, patienceMs: readonly number[]): void {
    if (retryMs === undefined) return;
    const nowMs = this.#runtime.now();
    const callMs = Math.max(0, nowMs - sentMs);
    const untilEndMs = retryMs + LATE_MS - madeMs - callMs;
    const isSoon = untilEndMs < UNDECIDED_PAUSE_MS;
    const random = this.#runtime.random();
    const pauseMs = (isSoon ? untilEndMs : Math.max(UNDECIDED_PAUSE_MS, callMs)) * (1 + SPREAD * random);
    // A request that has time for only one more call asks as late as it can.
    const reserveMs = LATE_MS * (1 + random);
    const leftMs = patienceMs.find((ms) => ms > reserveMs);
    const isLast = leftMs !== undefined && pauseMs + callMs + reserveMs > leftMs;
    this.#pausedUntilMs = nowMs + Math.min(SECOND_MS, isLast ? leftMs - reserveMs : pauseMs);
  }
}
