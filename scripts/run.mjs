// node scripts/run.mjs [OPTION...] PROGRAM [ARGUMENT...] runs a program of this project on a machine that has only Node 20 and npm: a
// file, or a tool of a package, such as vitest. First it installs the packages if node_modules does not match the lock file; with
// --omit=dev only those that serve and operate, with --with=FOLDER also those of a folder with a lock file of its own. It is
// JavaScript, because it has to run on an old Node. It writes to standard error only: standard output belongs to the program.
//
// If this machine's Node is too old for wrangler or for TypeScript, the program runs on a Node from npm, whose publisher is not the
// Node.js project. That one gets no Cloudflare credential, unless --allow-packaged-node is an argument.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { constants } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url).href);
/** Has a package.json of its own, because npm can't leave out single packages. */
const NODE_FOLDER = join(root, "scripts", "node");
/** npm's copy of the lock file. It writes that last, so an interrupted installation does not count. */
const COPY = join("node_modules", ".package-lock.json");
const CREDENTIALS = /^(CLOUDFLARE|CF)_|^WRANGLER_.*TOKEN/i;
/** Of TypeScript without an option; wrangler needs less. 23.6 in the odd series. */
const NEEDED = "Node 22.18 or newer";

/** @type {Set<import("node:child_process").ChildProcess>} */
const running = new Set();

if (realpathSync(process.argv[1] ?? "") === fileURLToPath(import.meta.url)) await run(process.argv.slice(2));

/**
 * Runs a program, with its exit code as this process's.
 * @param {string[]} args
 */
export async function run(args) {
  forwardSignals();
  // npm starts `node`, and lies beside it. Cron's PATH may have neither.
  process.env.PATH = [process.env.PATH, dirname(process.execPath)].join(delimiter);
  const start = args.findIndex((each) => !each.startsWith("--"));
  const [program = "", ...words] = args.slice(start);
  const options = args.slice(0, start);
  const isLight = options.includes("--omit=dev");
  const [more] = options.flatMap((each) => each.match(/(?<=^--with=).+/) ?? []);
  const locked = packagesOf(root);
  const isPackaged = !isNewEnough(locked) || process.execPath.startsWith(NODE_FOLDER);
  if (isPackaged && program === "wrangler" && words[0] !== "types")
    fail(`on Node ${process.version}, wrangler only generates types: install ${NEEDED}`);
  const wanted = [{ folder: root, locked, isLight, what: "the packages" }];
  if (more) {
    const folder = join(root, more);
    wanted.push({ folder, locked: packagesOf(folder), isLight: false, what: more });
  }
  const ofNode = isPackaged ? packagedNode() : undefined;
  if (ofNode) wanted.push(ofNode);
  const missing = () => wanted.filter((each) => !isInstalled(each));
  if (missing().length > 0)
    await alone(() => Promise.all(missing().map(install))).catch(({ message }) => fail(message));
  /** @type {NodeJS.ProcessEnv} */
  const env = { ...process.env, INIT_CWD: process.env.INIT_CWD ?? process.cwd() };
  if (isPackaged && !words.includes("--allow-packaged-node")) {
    // The reason for account.ts, which refuses.
    env.PETSTORE_PACKAGED_NODE = `this machine's Node ${process.version} is too old, and the one in scripts/node is not the Node.js project's: install ${NEEDED}`;
    for (const name of Object.keys(env)) if (CREDENTIALS.test(name)) delete env[name];
  }
  const file = program.includes("/") ? program : toolOf(locked, program);
  const flags = ["--disable-warning=ExperimentalWarning", file, ...words];
  process.exitCode = await runProgram(ofNode?.path ?? process.execPath, flags, { env, stdio: "inherit" });
}

/**
 * Does what two processes must not do at once, such as `npm start` and `npm test` in a fresh clone. A lock file can be stale: its process
 * has ended. To remove it would be a race, because another process may have taken the lock meanwhile. So a process that finds a stale or
 * released lock file links the one with the next number, which only one can do. The highest number counts.
 * @param {() => Promise<unknown>} work
 */
async function alone(work) {
  const folder = join(root, ".wrangler");
  const pathOf = (/** @type {number} */ number) => join(folder, `installing-${number}`);
  const own = join(folder, `installing.${process.pid}`);
  mkdirSync(folder, { recursive: true });
  for (let tries = 0; ; tries += 1) {
    const names = readdirSync(folder).filter((name) => /^installing-\d+$/.test(name));
    const last = Math.max(0, ...names.map((name) => Number(name.replace(/\D+/, ""))));
    if (isRunning(pathOf(last))) {
      // The id may belong to another process by now.
      if (tries === 0)
        process.stderr.write(`Waiting for another installation: its process id is in ${pathOf(last)}\n`);
      await wait(50);
      continue;
    }
    // The lock has its content from the beginning.
    writeFileSync(own, `${process.pid}`);
    try {
      linkSync(own, pathOf(last + 1));
      return await work().finally(() => writeFileSync(pathOf(last + 1), "released"));
    } catch (error) {
      const { code, syscall } = /** @type {NodeJS.ErrnoException} */ (error);
      if (syscall !== "link") throw error;
      // Not every file system has links. Where it has, another process was faster.
      if (code !== "EEXIST") return work();
    } finally {
      rmSync(own, { force: true });
    }
  }
}

/**
 * Whether the process that has written its id into a file still runs.
 * @param {string} file
 */
function isRunning(file) {
  try {
    return process.kill(Number(readFileSync(file, "utf8")), 0);
  } catch {
    return false;
  }
}

/**
 * The packages of a lock file, by folder, without the project itself.
 * @param {string} folder
 * @returns {Record<string, { version: string, bin?: Record<string, string>, engines?: { node?: string }, dev?: boolean, optional?: boolean, devOptional?: boolean, os?: string | string[], cpu?: string | string[], libc?: string[] }>}
 */
function packagesOf(folder, file = "package-lock.json") {
  const { packages } = JSON.parse(readFileSync(join(folder, file), "utf8"));
  const { "": _project, ...dependencies } = packages;
  return dependencies;
}

/**
 * What a folder is to have: the packages of its lock file. `what` names them in messages.
 * @typedef {{ folder: string, locked: ReturnType<typeof packagesOf>, isLight: boolean, what: string }} Wanted
 */

/** @param {string} folder */
function installedIn(folder) {
  return existsSync(join(folder, COPY)) ? packagesOf(folder, COPY) : undefined;
}

/** @param {Wanted} wanted */
function isInstalled({ folder, locked, isLight }) {
  const installed = installedIn(folder);
  const isThere = (/** @type {[string, typeof locked[string]]} */ [path, each]) =>
    existsSync(join(folder, path)) ? installed?.[path]?.version === each.version : !isNeeded(each, isLight);
  return installed !== undefined && Object.entries(locked).every(isThere);
}

/** @param {Wanted} wanted */
async function install({ folder, isLight, what }) {
  const installed = installedIn(folder);
  process.stderr.write(`Installing ${what}\n`);
  // `npm ci` begins with an empty folder, from which a service may be running. Without npm's copy of the lock file, npm checks what is
  // installed, and if it is interrupted, the next command begins with an empty folder.
  const words = installed ? ["install", "--no-save"] : ["ci"];
  rmSync(join(folder, COPY), { force: true });
  const isStillLight = isLight && !Object.values(installed ?? {}).some(({ dev }) => dev);
  // With NODE_ENV=production, npm would omit them by itself.
  words.push(isStillLight ? "--omit=dev" : "--include=dev", "--include=optional", "--engine-strict=false");
  // A Node in scripts/node/node_modules/.bin could be started by accident.
  if (folder !== root) words.push("--no-bin-links");
  const npm = process.env.npm_execpath;
  // Use the npm that runs this script. On Windows, spawn does not find `npm`.
  const [command, ...prefix] = npm?.endsWith("npm-cli.js") ? [process.execPath, npm] : ["npm"];
  const args = [...prefix, ...words, "--ignore-scripts", "--loglevel=error", "--no-audit", "--no-fund"];
  // npm does not need Cloudflare credentials.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !CREDENTIALS.test(name)));
  const exitCode = await runProgram(command, args, { cwd: folder, env, stdio: ["ignore", 2, 2] });
  if (exitCode !== 0) fail(`could not install ${what}: npm exited with ${exitCode}`);
}

/**
 * Whether npm installs a package on this machine. An optional one that fits any platform may be missing.
 * @param {ReturnType<typeof packagesOf>[string]} each
 * @param {boolean} isLight
 */
function isNeeded({ dev, devOptional, optional, os, cpu, libc }, isLight) {
  if (isLight && (dev || devOptional)) return false;
  if (!optional && !devOptional) return true;
  const fits = (/** @type {string | string[]} */ names, /** @type {string} */ own) =>
    [names].flat().includes(own);
  return (
    (os || cpu) &&
    !libc &&
    fits(os ?? process.platform, process.platform) &&
    fits(cpu ?? process.arch, process.arch)
  );
}

/**
 * Runs a program and returns its exit code, as a shell reports it.
 * @param {string} program
 * @param {string[]} args
 * @param {import("node:child_process").SpawnOptions} options
 * @returns {Promise<number>}
 */
async function runProgram(program, args, options) {
  const child = spawn(program, args, { cwd: root, ...options });
  child.on("error", ({ message }) => fail(message));
  running.add(child);
  const [code, signal] = await once(child, "close");
  running.delete(child);
  return code ?? 128 + constants.signals[/** @type {NodeJS.Signals} */ (signal)];
}

/**
 * Forwards signals to the running programs. Ctrl+C reaches the whole process group, so this process only waits for the program to
 * end. A supervisor often sends SIGTERM to npm alone. npm forwards it to the shell in between, which ends without a signal to
 * this process: only its parent process id changes.
 */
function forwardSignals() {
  const end = (/** @type {NodeJS.Signals} */ signal) => {
    for (const child of running) child.kill(signal);
    if (running.size === 0) process.exit(1);
  };
  process.on("SIGINT", () => {});
  for (const signal of /** @type {const} */ (["SIGTERM", "SIGHUP"])) process.on(signal, end);
  const parent = process.ppid;
  // Without npm, a program may outlive what has started it.
  if (process.env.npm_lifecycle_event)
    setInterval(() => process.ppid !== parent && end("SIGTERM"), 500).unref();
}

/**
 * Whether wrangler supports this Node, and this Node runs TypeScript without an option.
 * @param {ReturnType<typeof packagesOf>} locked
 */
function isNewEnough(locked) {
  const [minimum = ""] = locked["node_modules/wrangler"]?.engines?.node?.match(/[\d.]+/) ?? [];
  const isSupported = process.versions.node.localeCompare(minimum, "en", { numeric: true }) >= 0;
  return isSupported && Boolean(process.features.typescript);
}

/** A newer Node for this project alone, with its path. */
function packagedNode() {
  const [platform, file] = process.platform === "win32" ? ["win", "node.exe"] : [process.platform, "node"];
  const locked = packagesOf(NODE_FOLDER);
  const own = ["node", "node-bin"].map((name) => `node_modules/${name}-${platform}-${process.arch}`);
  const found = own.find((name) => locked[name]);
  if (found === undefined) fail(`Node ${process.version} is too old: install ${NEEDED}`);
  const what = `Node ${locked[found]?.version} for this project, because ${process.version} is too old`;
  return {
    folder: NODE_FOLDER,
    locked,
    isLight: false,
    what,
    path: resolve(NODE_FOLDER, found, "bin", file),
  };
}

/**
 * The file of a tool, such as vitest: unlike its link in node_modules/.bin, it needs no shell on any platform. A package inside of
 * another is not the project's own. Two have tsc: the first is the native one.
 * @param {ReturnType<typeof packagesOf>} locked
 * @param {string} name
 */
function toolOf(locked, name) {
  const found = Object.entries(locked).find(
    ([path, { bin }]) => bin?.[name] && !path.includes("/node_modules/"),
  );
  if (found === undefined) fail(`no package has the tool ${name}`);
  return join(root, found[0], found[1].bin?.[name] ?? "");
}

/**
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}
