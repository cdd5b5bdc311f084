// The clock and timers of the Workers runtime.

import { waitUntil } from "cloudflare:workers";
import { withDeadline } from "./deadline.ts";
import { nextPauseMs, type Runtime } from "./runtime.ts";

/** Waits until a condition holds, for at most `maxMs`. */
export async function poll(isDone: () => boolean, maxMs: number): Promise<void> {
  for (let waitedMs = 0; waitedMs < maxMs && !isDone(); ) {
    const pauseMs = nextPauseMs(waitedMs, maxMs);
    await scheduler.wait(pauseMs);
    waitedMs += pauseMs;
  }
}

export const RUNTIME: Runtime = {
  now: () => Date.now(),
  wait: (ms) => scheduler.wait(ms),
  until: poll,
  withDeadline,
  random: () => Math.random(),
  keepAlive: (work) => waitUntil(work),
};
