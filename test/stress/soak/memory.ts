// How much memory a process has, over time, and whether that levels off.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { median } from "../../../bench/measure/statistics.ts";

/**
 * By how much the median of the last quarter may be above that of the second one. In ten minutes the runtime still gets some
 * 5 % larger after the second quarter: each object's SQLite fills its cache, and the allocator keeps what it once had, while
 * the heap of JavaScript stays as it is. What is kept of every request shows from about half a kilobyte a request on.
 */
export const MAX_GROWTH = 0.1;

/** In less than eight minutes, the second quarter is still part of the time that everything takes to get warm. */
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

/** Whether the memory levels off; undefined if it was not watched for long enough. */
export function judge(megabytes: number[]): MemoryVerdict | undefined {
  if (megabytes.length < MIN_SAMPLES) return undefined;
  const quarter = megabytes.length / 4;
  const secondQuarterMb = median(megabytes.slice(Math.floor(quarter), Math.floor(2 * quarter)));
  const lastQuarterMb = median(megabytes.slice(Math.floor(3 * quarter)));
  const growth = lastQuarterMb / secondQuarterMb - 1;
  return { secondQuarterMb, lastQuarterMb, growth, isFlat: growth <= MAX_GROWTH };
}

const BARS = "▁▂▃▄▅▆▇█";

/** A line of bars from zero to the largest, and below it the figures, ten a line. */
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
