// The memory of a process over time, and a check that it is stable.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { median } from "../../../bench/measure/statistics.ts";

/**
 * The maximum growth of the median from the second quarter to the last. In a run of ten minutes the runtime still grows by some
 * 5 % after the second quarter: each object's SQLite fills its cache, and the allocator keeps freed memory, while the JavaScript
 * heap is constant. A leak is visible from about half a kilobyte per request.
 */
export const MAX_GROWTH = 0.1;

/** Below eight minutes, the second quarter is part of the warm-up. */
const MIN_SAMPLES = 48;

export interface MemoryVerdict {
  secondQuarterMb: number;
  lastQuarterMb: number;
  growth: number;
  isFlat: boolean;
}

/** The resident memory of a process, in megabytes of 2^20 bytes. */
export async function residentMb(processId: number): Promise<number> {
  const kilobytes = (await fromProc(processId)) ?? (await fromPs(processId));
  return kilobytes / 1024;
}

async function fromProc(processId: number): Promise<number | undefined> {
  try {
    const status = await readFile(`/proc/${processId}/status`, "utf8");
    const kilobytes = status.match(/^VmRSS:\s+(\d+) kB$/m)?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes);
  } catch {
    return undefined;
  }
}

async function fromPs(processId: number): Promise<number> {
  const { stdout } = await promisify(execFile)("ps", ["-o", "rss=", "-p", `${processId}`]);
  return Number(stdout);
}

/** Checks that memory is stable. Undefined if there are too few samples. */
export function judge(megabytes: number[]): MemoryVerdict | undefined {
  if (megabytes.length < MIN_SAMPLES) return undefined;
  const quarter = megabytes.length / 4;
  const secondQuarterMb = median(megabytes.slice(Math.floor(quarter), Math.floor(2 * quarter)));
  const lastQuarterMb = median(megabytes.slice(Math.floor(3 * quarter)));
  const growth = lastQuarterMb / secondQuarterMb - 1;
  return { secondQuarterMb, lastQuarterMb, growth, isFlat: growth <= MAX_GROWTH };
}

const BARS = "▁▂▃▄▅▆▇█";

/** A line of bars from zero to the maximum, and the figures below it. */
export function curve(megabytes: number[]): string {
  const most = Math.max(...megabytes);
  const bars = megabytes.map(
    (each) => BARS[Math.min(BARS.length - 1, Math.floor((each / most) * BARS.length))],
  );
  const figures = megabytes.map((each) => each.toFixed(0).padStart(5));
  const lines = Array.from({ length: Math.ceil(figures.length / 12) }, (_, line) =>
    figures.slice(12 * line, 12 * line + 12).join(""),
  );
  return `  ${bars.join("")}\n  ${lines.join("\n  ")}\n`;
}
