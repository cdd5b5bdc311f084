// Calls a Durable Object with a deadline and one retry.

import { DeadlineExceeded } from "../../lib/deadline.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { CALL_DEADLINE_MS } from "../protocol.ts";

/** Longer than an object takes to restart after a crash. */
const RETRY_PAUSE_MS = 250;

export const MAX_CALL_MS = 2 * CALL_DEADLINE_MS + RETRY_PAUSE_MS;

/**
 * Calls an object, and retries a failed call unless the object is overloaded or the deadline has passed. `call` must be
 * idempotent and make a new stub each time. Throws what the platform throws, or DeadlineExceeded.
 */
export async function callObject<Result>(runtime: Runtime, call: () => Promise<Result>): Promise<Result> {
  const callOnce = () => runtime.withDeadline("the limiter", CALL_DEADLINE_MS, call);
  try {
    return await callOnce();
  } catch (error) {
    if (error instanceof DeadlineExceeded || (error as { overloaded?: boolean }).overloaded) throw error;
    await runtime.wait(RETRY_PAUSE_MS);
    return callOnce();
  }
}
