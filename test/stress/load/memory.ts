// The check that memory is stable.

import { median } from "../../../bench/measure/statistics.ts";
import type { Expect } from "./ledger.ts";

export const SAMPLE_EVERY_MS = 10_000;

/** Below eight minutes, the third quarter is part of the warm-up. */
const MIN_SAMPLES = 48;

/**
 * The maximum growth of the median from the third quarter to the last. Before, the runtime grows by itself: each object's SQLite
 * fills its cache, and the allocator keeps freed memory, while the JavaScript heap is constant. In ten minutes on an idle machine a
 * leak is visible from about a kilobyte per request.
 */
const MAX_GROWTH = 0.05;

export function checkMemory(megabytes: readonly number[], expect: Expect): void {
  if (megabytes.length < MIN_SAMPLES) return;
  const quarter = Math.floor(megabytes.length / 4);
  const [before, after] = [
    median(megabytes.slice(-2 * quarter, -quarter)),
    median(megabytes.slice(-quarter)),
  ];
  expect(after <= before * (1 + MAX_GROWTH), "memory is not stable", `from ${before} MB to ${after} MB`);
}
