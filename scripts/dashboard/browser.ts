// Opens a page in the user's browser. Other users of the machine can read the command line of a program, so it has no token: it names a
// file that only this user can read, which leads to the page.

import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** The program of each platform that opens an address in the browser. */
const PROGRAMS: Partial<Record<NodeJS.Platform, string[]>> = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", ""],
};

/** Begins to open a page. Returns what removes the file. `onFailure` is told if there is no such program, or if it fails. */
export async function openInBrowser(address: string, onFailure: (reason: string) => void) {
  const folder = await mkdtemp(join(tmpdir(), "petstore-"));
  const file = join(folder, "dashboard.html");
  await writeFile(file, `<!doctype html><meta http-equiv="refresh" content="0; url=${address}">`, {
    mode: 0o600,
  });
  const [program = "xdg-open", ...words] = PROGRAMS[process.platform] ?? [];
  // In a group of its own: it may be the browser, which Ctrl+C should not end.
  const opener = spawn(program, [...words, pathToFileURL(file).href], { stdio: "ignore", detached: true });
  opener.on("error", ({ message }) => onFailure(message));
  opener.on("exit", (code) => code !== 0 && onFailure(`${program} failed`));
  opener.unref();
  return () => rm(folder, { recursive: true, force: true });
}
