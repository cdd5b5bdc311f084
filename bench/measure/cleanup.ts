// Cleanup when the bench ends, however it ends: its processes are killed, and its temporary files are removed. This happens
// synchronously while this process exits, because on a signal miniflare exits the process without waiting for anything.

import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";

const handlers = new Set<() => void>();

// Temporary files of miniflare and wrangler go into the same folder, because they may leave some behind.
const temporary = mkdtempSync(join(tmpdir(), "petstore-bench-"));
process.env.TMPDIR = temporary;

process.on("exit", () => {
  for (const handler of [...handlers].reverse()) handler();
  removeFolder(temporary);
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}

/** Calls `handler`, which must be synchronous, when this process exits. Returns a function that cancels that. */
export function onExit(handler: () => void): () => void {
  handlers.add(handler);
  return () => handlers.delete(handler);
}

/** Makes an empty folder for the state of one server. */
export function temporaryFolder(): { folder: string; remove: () => void } {
  const folder = mkdtempSync(join(temporary, "state-"));
  return { folder, remove: () => removeFolder(folder) };
}

/** Retries, because a process that was just killed may still be writing there. */
function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
}
