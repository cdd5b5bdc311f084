// The clock and timers of what waits for others. Tests replace them with virtual time.

import { waitUntil } from "cloudflare:workers";
import { withDeadline } from "./deadline.ts";

const FIRST_PAUSE_MS = 1;
/** A pause is a fifth of the time waited so far, so polling adds at most a fifth to a wait. */
const PAUSE_SHARE = 0.2;

/** How long to wait after `waitedMs` of at most `maxMs` before the condition is looked at again. */
export function nextPauseMs(waitedMs: number, maxMs: number): number {
  return Math.min(maxMs - waitedMs, Math.max(FIRST_PAUSE_MS, Math.floor(PAUSE_SHARE * waitedMs)));
}

/** Waits until a condition holds, for at most `maxMs`. */
export async function poll(isDone: () => boolean, maxMs: number): Promise<void> {
  for (let waitedMs = 0; waitedMs < maxMs && !isDone(); ) {
    const pauseMs = nextPauseMs(waitedMs, maxMs);
    await scheduler.wait(pauseMs);
    waitedMs += pauseMs;
  }
}

export const RUNTIME = {
  /** Unix time. This clock may step; the timers below don't. */
  now: () => Date.now(),
  wait: (ms: number): Promise<unknown> => scheduler.wait(ms),
  until: poll,
  withDeadline,
  /** A number in [0, 1). */
  random: () => Math.random(),
  /** Keeps work running after its request has ended. */
  keepAlive: (work: Promise<unknown>): void => waitUntil(work),
};

export type Runtime = typeof RUNTIME;
