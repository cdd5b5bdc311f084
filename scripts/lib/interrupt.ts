// Ctrl+C (SIGINT) for work that must end between two steps.

/** Does work that asks whether Ctrl+C was pressed. Pressed again, it ends the process at once. */
export async function untilInterrupted(work: (isInterrupted: () => boolean) => Promise<void>): Promise<void> {
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
  await work(() => isInterrupted).finally(restore);
}
