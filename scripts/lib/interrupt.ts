// Ctrl+C (SIGINT) for work that must end between two steps.

import { setImmediate as turn } from "node:timers/promises";

/** Does work that asks whether Ctrl+C was pressed. Pressed again, it ends the process at once. */
export async function untilInterrupted(
  work: (isInterrupted: () => Promise<boolean>) => Promise<void>,
): Promise<void> {
  let isInterrupted = false;
  const interrupt = () => {
    isInterrupted = true;
  };
  process.once("SIGINT", interrupt);
  // Steps that never wait for input or output would keep the signal from being noticed.
  await work(() => turn().then(() => isInterrupted)).finally(() => process.off("SIGINT", interrupt));
}
