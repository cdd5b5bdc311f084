// Installs the packages of the baselines into bench/baselines/node_modules. Only the bench needs them.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { progress } from "./report.ts";

const folder = join(import.meta.dirname, "../baselines");

const NPM_CI = ["ci", "--loglevel=error", "--no-progress", "--no-audit", "--no-fund", "--ignore-scripts"];

if (import.meta.main) await installPackages();

/** Installs what bench/baselines/package-lock.json lists, unless it is installed. */
export async function installPackages(): Promise<void> {
  if (await isInstalled()) return;
  // The npm that runs this script, if it is known.
  const npm = process.env.npm_execpath;
  const [command, ...prefix] = npm?.endsWith("js") ? [process.execPath, npm] : ["npm"];
  // npm needs no Cloudflare credential.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(CLOUDFLARE|CF)_/i.test(name)),
  );
  progress("Installing the packages of the baselines, once");
  try {
    await promisify(execFile)(command, [...prefix, ...NPM_CI], { cwd: folder, env });
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    throw new Error(`can't install the packages of the baselines: ${stderr?.trim() || error}`);
  }
}

/** npm writes node_modules/.package-lock.json last, so an interrupted installation does not pass. */
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
