// Ctrl+C, and other signals that end a process, for work that must end between two steps.

import { setImmediate as turn } from "node:timers/promises";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Does work that asks whether there was such a signal. A second one ends the process at once. */
export async function untilInterrupted(
  work: (isInterrupted: () => Promise<boolean>) => Promise<void>,
): Promise<void> {
  let isInterrupted = false;
  const interrupt = () => {
    isInterrupted = true;
  };
  for (const signal of SIGNALS) process.once(signal, interrupt);
  // Steps that never wait for input or output would keep the signal from being noticed.
  await work(() => turn().then(() => isInterrupted)).finally(() => {
    for (const signal of SIGNALS) process.off(signal, interrupt);
  });
}
