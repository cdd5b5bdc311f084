// node scripts/run.mjs FILE [ARGUMENT...] runs a script of this project on a machine that has only Node 20 and npm. It
// installs the packages if node_modules does not match the lock file, then runs FILE with the machine's Node, or with the one
// from the packages if wrangler needs a newer version. It is JavaScript, because it has to run on an old Node. It writes to
// standard error only: standard output belongs to FILE.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url).href);

const locked = lockedPackages(join(root, "package-lock.json"));
/** @type {import("node:child_process").ChildProcess | undefined} */
let running;
forwardSignals();
if (!isInstalled()) await install();
process.exitCode = await run(chooseNode(), process.argv.slice(2), { stdio: "inherit" });

/**
 * The packages of a lock file, by folder.
 * @param {string} file
 * @returns {Record<string, { version: string, engines?: { node?: string }, optional?: boolean }>}
 */
function lockedPackages(file) {
  const { packages } = JSON.parse(readFileSync(file, "utf8"));
  const { "": _project, ...dependencies } = packages;
  return dependencies;
}

/** npm writes its copy of the lock file last, so an interrupted installation does not count. */
function isInstalled() {
  try {
    const installed = lockedPackages(join(root, "node_modules", ".package-lock.json"));
    return Object.entries(locked).every(([folder, { version, optional }]) =>
      existsSync(join(root, folder)) ? installed[folder]?.version === version : optional === true,
    );
  } catch {
    return false;
  }
}

async function install() {
  process.stderr.write("Installing the packages\n");
  const npm = process.env.npm_execpath;
  // Use the npm that runs this script. On Windows, spawn does not find `npm`.
  const [command, ...prefix] = npm?.endsWith("js") ? [process.execPath, npm] : ["npm"];
  const args = [...prefix, "ci", "--ignore-scripts", "--loglevel=error", "--no-audit", "--no-fund"];
  // npm does not need Cloudflare credentials.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(CLOUDFLARE|CF)_/i.test(name)),
  );
  const exitCode = await run(command, args, { env, stdio: ["ignore", 2, 2] });
  if (exitCode === 0) return;
  process.stderr.write(`Could not install the packages: npm ci exited with ${exitCode}\n`);
  process.exit(1);
}

/**
 * Runs a program and returns its exit code, as a shell reports it.
 * @param {string} program
 * @param {string[]} args
 * @param {import("node:child_process").SpawnOptions} options
 * @returns {Promise<number>}
 */
async function run(program, args, options) {
  running = spawn(program, args, { cwd: root, ...options });
  const [code, signal] = await once(running, "close");
  return code ?? 128 + constants.signals[/** @type {NodeJS.Signals} */ (signal)];
}

/**
 * Forwards signals to the running program. Ctrl+C reaches the whole process group, so this process only waits for the program to
 * end. A supervisor often sends SIGTERM to npm alone. npm forwards it to the shell in between, which ends without a signal to
 * this process: only its parent process id changes.
 */
function forwardSignals() {
  const end = (/** @type {NodeJS.Signals} */ signal) => {
    if (running?.exitCode === null && running.signalCode === null) running.kill(signal);
    else process.exit(1);
  };
  process.on("SIGINT", () => {});
  for (const signal of /** @type {const} */ (["SIGTERM", "SIGHUP"])) process.on(signal, end);
  const parent = process.ppid;
  setInterval(() => process.ppid !== parent && end("SIGTERM"), 500).unref();
}

/**
 * The machine's Node if it is new enough or the lock file has none for this platform, else the Node from the lock file. npm
 * puts the latter first in the PATH of everything that it starts. Where it is not needed its link is removed, so that later
 * commands, and their credentials, meet only the machine's Node.
 */
function chooseNode() {
  // npm starts this file with the first Node in PATH, and says which one runs npm.
  const own = process.env.npm_node_execpath ?? process.execPath;
  const fallback = lockedNode();
  if (fallback !== undefined && (own === fallback || !isNewEnough(own))) return fallback;
  for (const name of ["node", "node.cmd", "node.ps1"]) {
    try {
      rmSync(join(root, "node_modules", ".bin", name), { force: true });
    } catch {
      // node_modules belongs to another user.
    }
  }
  return own;
}

/** The Node from the lock file, if it has one for this platform. */
function lockedNode() {
  const [platform, file] = process.platform === "win32" ? ["win", "node.exe"] : [process.platform, "node"];
  const candidates = [`node-${platform}-${process.arch}`, `node-bin-${platform}-${process.arch}`];
  const found = candidates.map((name) => join(root, "node_modules", name, "bin", file)).find(existsSync);
  return found && realpathSync(found);
}

/**
 * Whether wrangler supports this Node, and this Node runs TypeScript without an option.
 * @param {string} node
 */
function isNewEnough(node) {
  const version = "process.features.typescript ? process.versions.node : 0";
  const found = execFileSync(node, ["--print", version], { encoding: "utf8" });
  const [minimum = ""] = locked["node_modules/wrangler"]?.engines?.node?.match(/[\d.]+/) ?? [];
  return found.localeCompare(minimum, "en", { numeric: true }) >= 0;
}
