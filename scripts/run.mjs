// Runs a script of this project on a machine that has nothing but Node 20 and npm:
//
//   node scripts/run.mjs FILE [ARGUMENT...]
//
// installs the locked packages first if they are missing or others than the lock file says, then runs FILE with the
// machine's own Node, or with the one among the packages if the machine's is too old for wrangler. It is the one file
// that has to run on an old Node, so it is JavaScript. It writes to standard error only: standard output belongs to FILE.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * @typedef {{ version: string, engines?: { node?: string }, optional?: boolean, os?: string[], cpu?: string[], libc?: string[] }} LockedPackage
 */

const root = fileURLToPath(new URL("..", import.meta.url).href);

const wanted = lockedPackages(join(root, "package-lock.json"));
const follow = followSignals();
if (!isInstalled()) await install();
process.exitCode = await ended(
  follow(spawn(chooseNode(), process.argv.slice(2), { cwd: root, stdio: "inherit" })),
);

/**
 * The packages of a lock file, by the folder each belongs into.
 * @param {string} file
 * @returns {Record<string, LockedPackage>}
 */
function lockedPackages(file) {
  const { packages } = JSON.parse(readFileSync(file, "utf8"));
  const { "": _project, ...locked } = packages;
  return locked;
}

/** npm writes its own copy of the lock file last, so an interrupted installation counts as none. */
function isInstalled() {
  try {
    const installed = lockedPackages(join(root, "node_modules", ".package-lock.json"));
    return Object.entries(wanted).every(([folder, { version, optional }]) =>
      existsSync(join(root, folder)) ? installed[folder]?.version === version : optional === true,
    );
  } catch {
    return false;
  }
}

async function install() {
  const startedMs = Date.now();
  const stopProgress = showProgress();
  const npm = process.env.npm_execpath;
  // The same npm that runs this script. On Windows `npm` alone is no program.
  const [command, ...prefix] = npm?.endsWith("js") ? [process.execPath, npm] : ["npm"];
  // What npm prints is kept for the case that it fails: otherwise it is no news.
  const options = ["--ignore-scripts", "--loglevel=error", "--no-progress", "--no-audit", "--no-fund"];
  // npm needs no credential for Cloudflare.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(CLOUDFLARE|CF)_/i.test(name)),
  );
  const child = spawn(command, [...prefix, "ci", ...options], {
    cwd: root,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  follow(child);
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (printed += chunk));
  const exitCode = await ended(child);
  stopProgress();
  if (exitCode !== 0) {
    process.stderr.write(
      `${printed}\nThe packages could not be installed (npm ci ended with ${exitCode}).\n`,
    );
    process.exit(1);
  }
  process.stderr.write(`Installed the packages in ${Math.round((Date.now() - startedMs) / 1000)} s.\n`);
}

/** Says how far the installation is, every second on a terminal, else every ten. Returns what ends it. */
function showProgress() {
  const folders = Object.entries(wanted).flatMap(([folder, locked]) => (belongsHere(locked) ? [folder] : []));
  const terminal = process.stderr.isTTY;
  const report = () => {
    const done = folders.filter((folder) => existsSync(join(root, folder, "package.json"))).length;
    const line = `Installing the packages: ${done} of ${folders.length}`;
    process.stderr.write(terminal ? `\r${line}` : `${line}\n`);
  };
  process.stderr.write(terminal ? "Installing the packages" : "Installing the packages, once\n");
  const timer = setInterval(report, terminal ? 1_000 : 10_000);
  return () => {
    clearInterval(timer);
    if (terminal) process.stderr.write("\r\x1b[K");
  };
}

/**
 * Whether npm is going to install a package on this machine. Optional ones that fit every machine stand in for others,
 * those for musl are for small containers.
 * @param {LockedPackage} locked
 */
function belongsHere({ optional, os, cpu, libc }) {
  if (optional && os === undefined) return false;
  const fits = (/** @type {string[] | undefined} */ all, /** @type {string} */ mine) =>
    all?.includes(mine) ?? true;
  return fits(os, process.platform) && fits(cpu, process.arch) && fits(libc, "glibc");
}

/**
 * Makes the process that is followed end when this one should. Returns what names that process.
 *
 * Ctrl+C reaches the whole group of processes, so this one only waits for the other to end. A supervisor's SIGTERM
 * often reaches npm alone: npm hands it to the shell between them, and the shell ends without a word to this process,
 * which sees no more than that its parent is another one.
 */
function followSignals() {
  /** @type {import("node:child_process").ChildProcess | undefined} */
  let followed;
  const end = (/** @type {NodeJS.Signals} */ signal) => {
    if (followed?.exitCode === null && followed.signalCode === null) followed.kill(signal);
    else process.exit(1);
  };
  process.on("SIGINT", () => {});
  for (const signal of /** @type {const} */ (["SIGTERM", "SIGHUP"])) process.on(signal, end);
  const parent = process.ppid;
  setInterval(() => process.ppid !== parent && end("SIGTERM"), 500).unref();
  return (/** @type {import("node:child_process").ChildProcess} */ child) => (followed = child);
}

/**
 * The machine's own Node if it is new enough, or if the lock file has none for this platform; else the one from the lock
 * file. npm puts that one before the machine's own in the PATH of everything that it starts, so where it is not needed its
 * link is removed: a credential of the next command then meets no binary of Node but the machine's.
 */
function chooseNode() {
  // npm starts this file with the first Node in its PATH, and says which one it runs on itself.
  const own = process.env.npm_node_execpath ?? process.execPath;
  const locked = lockedNode();
  if (locked !== undefined && (own === locked || !isNewEnough(own))) return locked;
  for (const name of ["node", "node.cmd", "node.ps1"]) {
    try {
      rmSync(join(root, "node_modules", ".bin", name), { force: true });
    } catch {
      // The packages belong to another user.
    }
  }
  return own;
}

/** The Node from the lock file, if there is one for this platform. */
function lockedNode() {
  const platform = process.platform === "win32" ? "win" : process.platform;
  const file = process.platform === "win32" ? "node.exe" : "node";
  const candidates = [`node-${platform}-${process.arch}`, `node-bin-${platform}-${process.arch}`];
  const found = candidates.map((name) => join(root, "node_modules", name, "bin", file)).find(existsSync);
  return found && realpathSync(found);
}

/**
 * Whether wrangler runs on a Node, and TypeScript without an option.
 * @param {string} node
 */
function isNewEnough(node) {
  const version = "process.features.typescript ? process.versions.node : 0";
  const found = execFileSync(node, ["--print", version], { encoding: "utf8" });
  const [least = ""] = wanted["node_modules/wrangler"]?.engines?.node?.match(/[\d.]+/) ?? [];
  return found.localeCompare(least, "en", { numeric: true }) >= 0;
}

/**
 * The exit code of a child as a shell would report it.
 * @param {import("node:child_process").ChildProcess} child
 * @returns {Promise<number>}
 */
function ended(child) {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? "SIGTERM"]));
  });
}
