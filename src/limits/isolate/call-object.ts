// Calls a Durable Object with a deadline and one retry.

import { DeadlineExceeded } from "../../lib/deadline.ts";
import type { Runtime } from "../../lib/runtime.ts";

/** The deadline of a call. Longer: more isolates can call an object at once and be counted; shorter: shorter waits if it hangs. */
export const CALL_DEADLINE_MS = 3_000;
/** Longer than an object takes to restart after a crash. */
const RETRY_PAUSE_MS = 250;
/** The most of the time left that a pause takes. More: too little is left for the call; less: the object may not have restarted. */
const MAX_PAUSE_SHARE = 0.25;

/**
 * Calls an object, and retries a failed call unless the object is overloaded or the deadline has passed. `call` must be
 * idempotent and make a new stub each time. Ends within `maxMs`. Throws what the platform throws, or DeadlineExceeded.
 */
export async function callObject<Result>(runtime: Runtime, maxMs: number, call: () => Promise<Result>) {
  const callOnce = (ms: number) => runtime.withDeadline("the limiter", Math.min(ms, CALL_DEADLINE_MS), call);
  const beganMs = runtime.now();
  try {
    return await callOnce(maxMs);
  } catch (error) {
    // After the clock steps, the rest is unknown.
    const tookMs = Math.min(CALL_DEADLINE_MS, Math.abs(runtime.now() - beganMs));
    const leftMs = maxMs - tookMs;
    const isFinal = error instanceof DeadlineExceeded || (error as { overloaded?: boolean }).overloaded;
    if (isFinal || leftMs <= 0) throw error;
    const pauseMs = Math.min(RETRY_PAUSE_MS, Math.floor(MAX_PAUSE_SHARE * leftMs));
    await runtime.wait(pauseMs);
    return callOnce(leftMs - pauseMs);
  }
}
