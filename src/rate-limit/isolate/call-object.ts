// How a call reaches a Durable Object: within a deadline, and once more if it fails.

import { DeadlineExceeded } from "../../lib/deadline.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { CALL_DEADLINE_MS } from "../protocol.ts";

/** Longer than an object takes to be back after a crash. */
const RETRY_PAUSE_MS = 250;

/** Two attempts and the pause between them. */
export const MAX_CALL_MS = 2 * CALL_DEADLINE_MS + RETRY_PAUSE_MS;

/**
 * Calls an object, and once more if that fails, unless it is overloaded or took too long. The call must be harmless to repeat, and
 * make a new stub each time. Throws what the platform throws, or DeadlineExceeded.
 */
export async function callObject<Result>(
  runtime: Runtime,
  name: string,
  call: () => Promise<Result>,
): Promise<Result> {
  const callOnce = () => runtime.withDeadline(name, CALL_DEADLINE_MS, call);
  try {
    return await callOnce();
  } catch (error) {
    if (error instanceof DeadlineExceeded || (error as { overloaded?: boolean }).overloaded) throw error;
    await runtime.wait(RETRY_PAUSE_MS);
    return callOnce();
  }
}
