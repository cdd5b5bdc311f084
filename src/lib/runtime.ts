// The clock and timers that the limiter uses. Tests replace them with virtual time.

import { waitUntil } from "cloudflare:workers";
import { withDeadline } from "./deadline.ts";
import { poll } from "./single-flight.ts";

export const RUNTIME = {
  /** Unix time. This clock may step; the timers below don't. */
  now: () => Date.now(),
  wait: (ms: number): Promise<unknown> => scheduler.wait(ms),
  /** Waits until a condition holds, for at most `maxMs`. */
  until: (isDone: () => boolean, maxMs: number): Promise<unknown> => poll(isDone, maxMs),
  withDeadline,
  /** A number in [0, 1). */
  random: () => Math.random(),
  /** Keeps work running after its request has ended. */
  keepAlive: (work: Promise<unknown>): void => waitUntil(work),
};

export type Runtime = typeof RUNTIME;
