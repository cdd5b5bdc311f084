// Ctrl+C, and other signals that end a process, for work that must end between two steps.

import { setImmediate as turn } from "node:timers/promises";

/** Signals that end a process. */
export const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Of the work that is under way. Without such work, a signal ends the process. */
let interruption: AbortSignal | undefined;

/** Does work that asks whether there was such a signal. A second one ends the process at once. */
export async function untilInterrupted(
  work: (isInterrupted: () => Promise<boolean>) => Promise<void>,
): Promise<void> {
  const controller = new AbortController();
  const interrupt = () => controller.abort(new Error("interrupted"));
  interruption = controller.signal;
  for (const signal of SIGNALS) process.once(signal, interrupt);
  // Steps that never wait for input or output would keep the signal from being noticed.
  await work(() => turn().then(() => controller.signal.aborted)).finally(() => {
    for (const signal of SIGNALS) process.off(signal, interrupt);
    interruption = undefined;
  });
}

/** Waits. Throws if such a signal came before, or comes meanwhile. */
export async function pause(ms: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const signal = interruption;
  signal?.throwIfAborted();
  signal?.addEventListener("abort", () => reject(signal.reason));
  const timer = setTimeout(resolve, ms);
  await promise.finally(() => clearTimeout(timer));
}
