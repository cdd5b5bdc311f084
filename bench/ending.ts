// What has to be ended or removed when the bench ends, however it does. Only what the bench has started is in here.

import { mkdtemp, rm } from "node:fs/promises";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";

type End = () => Promise<void> | void;

const ends = new Set<End>();

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, async () => {
    await endAll();
    process.exit(128 + constants.signals[signal]);
  });
}

/** Has `end` done when the bench ends. Returns what does it now, and once only. */
export function atEnd(end: End): () => Promise<void> {
  ends.add(end);
  return async () => {
    if (ends.delete(end)) await end();
  };
}

/** Ends everything that is still there, the latest first. */
export async function endAll(): Promise<void> {
  for (const end of [...ends].reverse()) {
    ends.delete(end);
    await Promise.resolve(end()).catch((error) => process.stderr.write(`${error}\n`));
  }
}

/** A fresh folder for the state of one server, and what removes it. */
export async function emptyFolder(): Promise<{ folder: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-bench-"));
  return { folder, remove: atEnd(() => rm(folder, { recursive: true, force: true })) };
}
