// Installs what the contestants are made of, into their folder, if it is not there: only the bench needs it.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const folder = join(import.meta.dirname, "../baselines");

if (import.meta.main) await installPackages();

/** Installs the packages of contestants/package-lock.json unless they are there already. Throws what npm says if that fails. */
export async function installPackages(): Promise<void> {
  if (await isInstalled()) return;
  const npm = process.env.npm_execpath;
  // The same npm that runs this script, where it is known.
  const [command, ...prefix] = npm?.endsWith("js") ? [process.execPath, npm] : ["npm"];
  const words = [
    ...prefix,
    "ci",
    "--loglevel=error",
    "--no-progress",
    "--no-audit",
    "--no-fund",
    "--ignore-scripts",
  ];
  // npm needs no credential for Cloudflare.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(CLOUDFLARE|CF)_/i.test(name)),
  );
  process.stderr.write("Installing the packages of the contestants, once\n");
  try {
    await promisify(execFile)(command, words, { cwd: folder, env });
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    throw new Error(`the packages of the contestants could not be installed: ${stderr?.trim() || error}`);
  }
}

/** npm writes its own copy of the lock file last, so an interrupted installation counts as none. */
async function isInstalled(): Promise<boolean> {
  const versions = async (file: string): Promise<string | undefined> => {
    const text = await readFile(join(folder, file), "utf8").catch(() => undefined);
    if (text === undefined) return undefined;
    const { packages } = JSON.parse(text) as { packages: Record<string, { version?: string }> };
    const { "": _project, ...locked } = packages;
    return JSON.stringify(Object.entries(locked).map(([name, { version }]) => [name, version]));
  };
  const installed = await versions("node_modules/.package-lock.json");
  return installed !== undefined && installed === (await versions("package-lock.json"));
}
