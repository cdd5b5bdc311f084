// The processor time of a process with all its threads, in user and kernel mode. Linux only. It is read from
// /proc/PID/task/*/schedstat, which has nanoseconds; /proc/PID/stat has the same time in hundredths of a second.
//
// The time of a thread that ends between two readings is lost. Under load, neither workerd nor Node ends threads.

import { readdirSync, readFileSync } from "node:fs";

/** Returns a function that tells how many milliseconds of processor time the process has used since this call. */
export function processorTimer(processId: number): () => number {
  if (process.platform !== "linux") throw new Error("processor time is measured on Linux only");
  const before = threadTimes(processId);
  return () => {
    const after = threadTimes(processId);
    const nanoseconds = [...after].map(([thread, time]) => time - (before.get(thread) ?? 0));
    return nanoseconds.reduce((total, each) => total + each, 0) / 1e6;
  };
}

/** The nanoseconds that each thread has run, by its id. */
function threadTimes(processId: number): Map<string, number> {
  const folder = `/proc/${processId}/task`;
  const times = readdirSync(folder).map((thread): [string, number] => {
    const [running] = readFileSync(`${folder}/${thread}/schedstat`, "utf8").split(" ");
    return [thread, Number(running)];
  });
  return new Map(times);
}
