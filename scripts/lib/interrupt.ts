// Ctrl+C (SIGINT) for work that must end between two steps.

import { setImmediate as turn } from "node:timers/promises";

/** Does work that asks whether Ctrl+C was pressed. Pressed again, it ends the process at once. */
export async function untilInterrupted(
  work: (isInterrupted: () => Promise<boolean>) => Promise<void>,
): Promise<void> {
  // miniflare has a listener that ends the process.
  const others = process.listeners("SIGINT");
  let isInterrupted = false;
  const restore = () => {
    process.removeAllListeners("SIGINT");
    for (const each of others) process.on("SIGINT", each);
  };
  process.removeAllListeners("SIGINT").on("SIGINT", () => {
    isInterrupted = true;
    restore();
  });
  // Steps that never wait for input or output would keep the signal from being noticed.
  await work(() => turn().then(() => isInterrupted)).finally(restore);
}
