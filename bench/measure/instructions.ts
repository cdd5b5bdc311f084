// Instructions that a process executes in user mode, counted by `perf stat`. They vary less than processor time. Many virtual
// machines don't count them, and perf may be missing: then the bench leaves the column out.

import { spawn } from "node:child_process";
import { once } from "node:events";

const PERF_STAT = ["stat", "-x,", "--event", "instructions:u"];

/** The command that runs `command` and meanwhile counts the instructions of a process. It prints the count to descriptor 3. */
export function countingCommand(processId: number, command: string[]): string[] {
  return ["perf", ...PERF_STAT, "--log-fd", "3", "--pid", `${processId}`, "--", ...command];
}

/** The count in what `perf stat -x,` printed: lines of `COUNT,UNIT,EVENT,…`, one for each kind of core. NaN if there is none. */
export function parseCount(printed: string): number {
  const counts = printed
    .split("\n")
    .map((line) => line.split(",")[0] ?? "")
    .filter((count) => /^\d+$/.test(count));
  return counts.length === 0 ? Number.NaN : counts.reduce((total, count) => total + Number(count), 0);
}

let counts: Promise<boolean> | undefined;

/** Whether this machine counts instructions. */
export function hasInstructions(): Promise<boolean> {
  counts ??= tryPerf();
  return counts;
}

async function tryPerf(): Promise<boolean> {
  const child = spawn("perf", [...PERF_STAT, "--", "true"], { stdio: ["ignore", "ignore", "pipe"] });
  let printed = "";
  child.stderr.on("data", (chunk) => (printed += chunk));
  try {
    await once(child, "close");
  } catch {
    return false;
  }
  return !Number.isNaN(parseCount(printed));
}
