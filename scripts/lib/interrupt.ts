// Ctrl+C, and other signals that end a process, for work that must say what it leaves.

import { setImmediate as turn } from "node:timers/promises";

/** Signals that end a process. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Of the work that is under way. Without such work, a signal ends the process. */
let interruption: AbortSignal | undefined;

/** Does work that asks whether there was such a signal, and ends between two steps. A second one ends the process at once. */
export function untilInterrupted(
  work: (isInterrupted: () => Promise<boolean>) => Promise<void>,
): Promise<void> {
  // Steps that never wait for input or output would keep the signal from being noticed.
  return listening((signal) => work(() => turn().then(() => signal.aborted)));
}

/** Does work that can end anywhere. Throws at once if there is such a signal; what the work still does ends with the process. */
export function unlessInterrupted<Result>(work: () => Promise<Result>): Promise<Result> {
  return listening((signal) => Promise.race([work(), abortOf(signal)]));
}

async function listening<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const controller = new AbortController();
  const interrupt = () => controller.abort(new Error("interrupted"));
  interruption = controller.signal;
  for (const signal of SIGNALS) process.once(signal, interrupt);
  return work(controller.signal).finally(() => {
    for (const signal of SIGNALS) process.off(signal, interrupt);
    interruption = undefined;
  });
}

/** Waits. Throws if such a signal came before, or comes meanwhile. */
export async function pause(ms: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  interruption?.throwIfAborted();
  const timer = setTimeout(resolve, ms);
  const ends = interruption === undefined ? [promise] : [promise, abortOf(interruption)];
  await Promise.race(ends).finally(() => clearTimeout(timer));
}

function abortOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}

/** Waits for a signal that ends a process. */
export function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of SIGNALS) process.once(signal, () => resolve());
  });
}
