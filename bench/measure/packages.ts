// Installs packages that only the bench or one test needs, each set from a folder with a lock file of its own.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { progress } from "./report.ts";

const BASELINES = join(import.meta.dirname, "../baselines");

// Without a network, npm would retry for more than a minute.
const RETRIES = ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000"];
const QUIET = ["--loglevel=error", "--no-progress", "--no-audit", "--no-fund"];
const NPM_CI = ["ci", "--ignore-scripts", ...QUIET, ...RETRIES];

if (import.meta.main) await installPackages();

/** Installs what package-lock.json of the folder lists, by default bench/baselines, unless it is installed. */
export async function installPackages(folder = BASELINES): Promise<void> {
  if (await isInstalled(folder)) return;
  // The npm that runs this script, if it is known.
  const npm = process.env.npm_execpath;
  const [command, ...prefix] = npm?.endsWith("js") ? [process.execPath, npm] : ["npm"];
  // npm needs no Cloudflare credential.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(CLOUDFLARE|CF)_/i.test(name)),
  );
  progress(`Installing the packages of the ${basename(folder)}, once`);
  try {
    await promisify(execFile)(command, [...prefix, ...NPM_CI], { cwd: folder, env });
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    throw new Error(`can't install the packages of the ${basename(folder)}: ${stderr?.trim() || error}`);
  }
}

/** npm writes node_modules/.package-lock.json last, so an interrupted installation does not pass. */
async function isInstalled(folder: string): Promise<boolean> {
  type Locked = Record<string, { version?: string; os?: string | string[]; cpu?: string | string[] }>;
  const read = async (file: string): Promise<Locked> => {
    const text = await readFile(join(folder, file), "utf8").catch(() => '{ "packages": {} }');
    const { "": _project, ...locked } = (JSON.parse(text) as { packages: Locked }).packages;
    return locked;
  };
  const installed = await read("node_modules/.package-lock.json");
  return Object.entries(await read("package-lock.json")).every(
    ([name, { version, os = process.platform, cpu = process.arch }]) =>
      installed[name]?.version === version || !os.includes(process.platform) || !cpu.includes(process.arch),
  );
}
