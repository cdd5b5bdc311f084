// A folder of backups, whose names are their times. Only files with such a name count, and are ever deleted.

import { readdir, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Target } from "../cloudflare/database.ts";
import { formatTime } from "../lib/time.ts";

const PREFIXES: Record<Target["kind"], string> = {
  production: "petstore",
  preview: "petstore-previews",
  local: "petstore-local",
};

/** What a killed backup has left is older. Longer: it takes space; shorter: a backup that is being written could be deleted. */
const ABANDONED_MS = 86_400_000;

/** The name of a backup that began at this Unix time, such as `petstore-2026-11-28T031700Z.backup`. Names sort by time. */
export function backupName({ kind }: Target, beganAtMs: number): string {
  return `${PREFIXES[kind]}-${formatTime(beganAtMs).replaceAll(":", "")}.backup`;
}

/**
 * Deletes the oldest backups that are older than `path`, a complete one, until `keep` are left with it, and what killed ones have left. By
 * their names, so that two such commands at once never delete the later one's file.
 */
export async function deleteOlder(path: string, keep: number, nowMs: number): Promise<void> {
  const [folder, own] = [dirname(path), basename(path)];
  const isOlder = (name: string) => formOf(name) === formOf(own) && name < own;
  const entries = await readdir(folder, { withFileTypes: true });
  const files = entries.filter((each) => each.isFile()).map(({ name }) => name);
  const older = files.filter(isOlder).sort();
  for (const name of older.slice(0, Math.max(0, older.length - (keep - 1))))
    await rm(join(folder, name), { force: true });
  for (const name of files.filter((each) => isOlder(each.replace(/\.\d+\.partial$/, "")) && !isOlder(each))) {
    // One that was being written may have got its name meanwhile.
    const { mtimeMs } = await stat(join(folder, name)).catch(() => ({ mtimeMs: nowMs }));
    if (nowMs - mtimeMs > ABANDONED_MS) await rm(join(folder, name), { force: true });
  }
}

/** Names of the same form differ only in their digits. */
function formOf(name: string): string {
  return name.replaceAll(/\d/g, "0");
}
