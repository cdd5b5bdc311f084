// The memory of a process over time, and a check that it is stable.

import { execFileSync } from "node:child_process";
import { median } from "../../../bench/measure/statistics.ts";
import type { Problems } from "./problems.ts";

/**
 * The maximum growth of the median from the third quarter to the last. Before, the runtime grows by itself: each object's SQLite
 * fills its cache, and the allocator keeps freed memory, while the JavaScript heap is constant. In ten minutes on an idle machine a
 * leak is visible from about a kilobyte per request.
 */
const MAX_GROWTH = 0.05;

export const SAMPLE_EVERY_MS = 10_000;

/** Below eight minutes, the third quarter is part of the warm-up. */
const MIN_SAMPLES = 48;

/** The resident memory of a process, in megabytes of 2^20 bytes. */
export function residentMb(processId: number): number {
  return Number(execFileSync("ps", ["-o", "rss=", "-p", `${processId}`])) / 1024;
}

/** Checks that memory is stable, if there are enough samples. */
export function checkMemory(megabytes: readonly number[], problems: Problems): void {
  if (megabytes.length < MIN_SAMPLES) return;
  const quarter = megabytes.length / 4;
  const before = median(megabytes.slice(Math.floor(2 * quarter), Math.floor(3 * quarter)));
  const after = median(megabytes.slice(Math.floor(3 * quarter)));
  const detail = `medians of the third and last quarter: ${before.toFixed(0)} and ${after.toFixed(0)} MB`;
  problems.expect(after / before - 1 <= MAX_GROWTH, "memory is not stable", detail);
}
