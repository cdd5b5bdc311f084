// Opens a page in the user's browser. Other users of the machine can read the command line of a program, so it has no token: it names a
// file that only this user can read, which leads to the page.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** The program of each platform that opens an address in the browser. */
const PROGRAMS: Partial<Record<NodeJS.Platform, string[]>> = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", ""],
};

/** Returns what removes the file. Rejects if there is no such program, or if it fails. */
export async function openInBrowser(address: string): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  const file = join(folder, "dashboard.html");
  await writeFile(file, `<!doctype html><meta http-equiv="refresh" content="0; url=${address}">`, {
    mode: 0o600,
  });
  const [program = "xdg-open", ...words] = PROGRAMS[process.platform] ?? [];
  try {
    const opener = spawn(program, [...words, pathToFileURL(file).href], { stdio: "ignore" });
    const [code] = await once(opener, "exit");
    if (code !== 0) throw new Error(`${program} failed`);
    return remove;
  } catch (error) {
    await remove();
    throw error;
  }
}
