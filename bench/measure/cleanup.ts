// What has to be ended or removed when the bench ends, however it does. Only what the bench has started is in here.
//
// All of it is done at once, while this process exits: on a signal, miniflare exits the process before anything that takes
// time could be done.

import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";

const ends = new Set<() => void>();

// All temporary files are in one folder, those that miniflare and wrangler make and may forget too.
const temporary = mkdtempSync(join(tmpdir(), "petstore-bench-"));
process.env.TMPDIR = temporary;

process.on("exit", () => {
  for (const end of [...ends].reverse()) end();
  removeFolder(temporary);
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}

/** Has `end` done when the bench ends. Returns what makes that needless, because it has been done. */
export function atEnd(end: () => void): () => void {
  ends.add(end);
  return () => ends.delete(end);
}

/** A fresh folder for the state of one server, and what removes it. */
export function emptyFolder(): { folder: string; remove: () => void } {
  const folder = mkdtempSync(join(temporary, "state-"));
  return { folder, remove: () => removeFolder(folder) };
}

/** A process that was killed just now may still be writing there. */
function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
}
