// The clock and the timers that code waits by, as one value that is handed in: tests replace it by virtual time.

import { waitUntil } from "cloudflare:workers";
import { withDeadline } from "./deadline.ts";
import { poll } from "./single-flight.ts";

/** A clock, which may step, and timers, which do not. */
export interface Runtime {
  /** Unix time. */
  now(): number;
  wait(ms: number): Promise<unknown>;
  /** Waits until a condition holds. */
  until(isDone: () => boolean): Promise<unknown>;
  /** Throws DeadlineExceeded if the work of a part takes too long. */
  withDeadline<Result>(part: string, deadlineMs: number, work: () => Promise<Result>): Promise<Result>;
  /** Lets work go on after its request was answered, or its client has left. */
  keepAlive(work: Promise<unknown>): void;
}

export const RUNTIME: Runtime = {
  now: () => Date.now(),
  wait: (ms) => scheduler.wait(ms),
  until: poll,
  withDeadline,
  keepAlive: (work) => waitUntil(work),
};
