// Cleanup when the bench ends, however it ends: its processes are killed, and its temporary files are removed. This happens
// synchronously while this process exits, because on a signal miniflare exits the process without waiting for anything.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";

const MEMORY = "/dev/shm";

const handlers = new Set<() => void>();

/** The folder in memory, unless TMPDIR chooses another one or the system has none. */
const inMemory = process.env.TMPDIR === undefined && existsSync(MEMORY) ? MEMORY : tmpdir();

process.on("exit", () => {
  for (const handler of [...handlers].reverse()) handler();
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}

// Temporary files of miniflare and wrangler go into this folder, because they may leave some behind.
process.env.TMPDIR = temporaryFolder().folder;

/** Calls `handler`, which must be synchronous, when this process exits. Returns a function that cancels that. */
export function onExit(handler: () => void): () => void {
  handlers.add(handler);
  return () => handlers.delete(handler);
}

/** Makes an empty folder, by default on the disk of TMPDIR. */
export function temporaryFolder(isInMemory = false): { folder: string; remove: () => void } {
  const folder = mkdtempSync(join(isInMemory ? inMemory : tmpdir(), "petstore-bench-"));
  // Retries, because a process that was just killed may still be writing there.
  const removeFolder = () => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  const cancel = onExit(removeFolder);
  const remove = () => {
    removeFolder();
    cancel();
  };
  return { folder, remove };
}
