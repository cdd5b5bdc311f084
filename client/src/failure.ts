// What a failed request means: repeat it after a pause, or give up.

import { ApiError, type PetstoreError } from "./errors.ts";
import type { Settings } from "./options.ts";

const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 8_000;
/** Added to waits that the service demands, because other clients wait for the same time. */
export const MAX_JITTER_MS = 1_000;

/** How long to wait before the request is repeated, after so many attempts. Undefined if that can't help. */
export function pauseAfter(
  error: PetstoreError,
  attempts: number,
  { maxRetries, maxWaitMs }: Pick<Settings, "maxRetries" | "maxWaitMs">,
): number | undefined {
  const isTransient =
    !(error instanceof ApiError) || error.status >= 500 || [408, 429].includes(error.status);
  const leastMs = error.retryAfterMs ?? 0;
  if (!isTransient || attempts > maxRetries || leastMs > maxWaitMs) return undefined;
  // Exponential, with full jitter.
  const backoffMs = Math.min(MAX_BACKOFF_MS, MIN_BACKOFF_MS * 2 ** (attempts - 1));
  return leastMs + Math.random() * (leastMs > 0 ? MAX_JITTER_MS : backoffMs);
}
