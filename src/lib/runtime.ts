// The clock and timers of what waits for others: in a Worker those of workers-runtime.ts, in tests virtual time.

export interface Runtime {
  /** Unix time in milliseconds. This clock may step; the timers below don't. */
  now(): number;
  wait(ms: number): Promise<unknown>;
  /** Waits until a condition holds, for at most `maxMs`. */
  until(isDone: () => boolean, maxMs: number): Promise<void>;
  /** Rejects with DeadlineExceeded if `work` takes longer. `part` names what has not answered. */
  withDeadline<Result>(part: string, deadlineMs: number, work: () => Promise<Result>): Promise<Result>;
  /** A number in [0, 1). */
  random(): number;
  /** Keeps work running after its request has ended. */
  keepAlive(work: Promise<unknown>): void;
}

const FIRST_PAUSE_MS = 1;
/** A pause is a fifth of the time waited so far, so polling adds at most a fifth to a wait. */
const PAUSE_SHARE = 0.2;

/** How long to wait after `waitedMs` of at most `maxMs` before a condition is looked at again. */
export function nextPauseMs(waitedMs: number, maxMs: number): number {
  return Math.min(maxMs - waitedMs, Math.max(FIRST_PAUSE_MS, Math.floor(PAUSE_SHARE * waitedMs)));
}
