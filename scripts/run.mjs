// Runs a command of this project on a machine that has nothing but Node 20 and npm:
//
//   node scripts/run.mjs COMMAND [ARGUMENT...]
//
// installs the locked packages first if they are missing or older than the lock file, then runs COMMAND
// from node_modules/.bin, where a Node that is new enough for wrangler was installed too. It is the one
// file that has to run on the machine's own Node, so it is JavaScript. It writes to standard error only:
// standard output belongs to COMMAND.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { constants } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url).href);
const modules = join(root, "node_modules");
const lockFile = join(root, "package-lock.json");

if (installIsStale()) await install();
process.exitCode = await run(process.argv.slice(2));

/** npm writes its own copy of the lock file last, so an interrupted installation counts as stale. */
function installIsStale() {
  const installed = statSync(join(modules, ".package-lock.json"), { throwIfNoEntry: false });
  return installed === undefined || installed.mtimeMs < statSync(lockFile).mtimeMs;
}

async function install() {
  const startedMs = Date.now();
  const stopProgress = showProgress();
  const npm = process.env.npm_execpath;
  const arguments_ = ["ci", "--loglevel=error", "--no-progress", "--no-audit", "--no-fund"];
  // What npm prints is kept for the case that it fails: on a Node that it finds too old it also prints
  // warnings, and those are no news here.
  const [command, prefix] = npm?.endsWith("js") ? [process.execPath, [npm]] : ["npm", []];
  const child = spawn(command, [...prefix, ...arguments_], {
    cwd: root,
    shell: command === "npm" && process.platform === "win32",
    stdio: ["ignore", "pipe", "pipe"],
  });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (printed += chunk));
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
  const paths = lockedPaths();
  const terminal = process.stderr.isTTY;
  const report = () => {
    const done = paths.filter((path) => existsSync(join(root, path, "package.json"))).length;
    const line = `Installing the packages: ${done} of ${paths.length}`;
    process.stderr.write(terminal ? `\r${line}` : `${line}\n`);
  };
  process.stderr.write(terminal ? "Installing the packages" : "Installing the packages, once\n");
  const timer = setInterval(report, terminal ? 1_000 : 10_000);
  return () => {
    clearInterval(timer);
    if (terminal) process.stderr.write("\r\x1b[K");
  };
}

/** The folders of all locked packages that belong on this platform. */
function lockedPaths() {
  const { packages } = JSON.parse(readFileSync(lockFile, "utf8"));
  const fits = (/** @type {string[] | undefined} */ wanted, /** @type {string} */ mine) =>
    wanted === undefined || wanted.includes(mine);
  return Object.keys(packages).filter(
    (path) =>
      path !== "" && fits(packages[path].os, process.platform) && fits(packages[path].cpu, process.arch),
  );
}

/** @param {string[]} words the command and its arguments */
async function run([command = "node", ...arguments_]) {
  const path = [join(modules, ".bin"), process.env.PATH].join(delimiter);
  const child = spawn(command, arguments_, {
    cwd: root,
    env: { ...process.env, PATH: path },
    shell: process.platform === "win32",
    stdio: "inherit",
  });
  // Ctrl+C reaches the whole group of processes: wait for the command to end. A supervisor's signal
  // reaches this process only: hand it on.
  process.on("SIGINT", () => {});
  for (const signal of /** @type {const} */ (["SIGTERM", "SIGHUP"])) {
    process.on(signal, () => child.kill(signal));
  }
  return ended(child);
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
