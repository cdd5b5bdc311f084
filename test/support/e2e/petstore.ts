// Runs the project's commands as a new user does: with npm, in a temporary state folder, over real sockets.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, delimiter, join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";

/** The path of a state folder that does not exist yet, and a function that removes it. */
export async function emptyState() {
  const parent = await mkdtemp(join(tmpdir(), "petstore-test-"));
  return { state: join(parent, "state"), remove: () => rm(parent, { recursive: true, force: true }) };
}

/** What the commands of a copy of the project need, beside packages. */
const PROJECT =
  "petstore src client scripts migrations wrangler.toml package.json package-lock.json .npmrc .gitignore CHANGELOG.md";

/** Copies the project into a new folder, with links to its packages. */
export async function copyProject(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  const filter = (source: string) => !/node_modules|dist/.test(basename(source));
  for (const name of PROJECT.split(" ")) await cp(name, join(folder, name), { recursive: true, filter });
  for (const name of ["node_modules", "scripts/node/node_modules"])
    if (existsSync(name)) await symlink(resolve(name), join(folder, name));
  return folder;
}

export interface Outcome {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** Runs a script with the Node that runs the tests, and with the option of scripts/run.mjs. */
export function runScript(file: string, args: string[], environment?: NodeJS.ProcessEnv) {
  const words = ["--disable-warning=ExperimentalWarning", file, ...args];
  return runProcess(process.execPath, words, environment);
}

/** Runs a program. `environment` is added to a new user's environment. */
export async function runProcess(
  program: string,
  args: string[],
  environment: NodeJS.ProcessEnv = {},
  cwd = ".",
): Promise<Outcome> {
  try {
    const options = { env: { ...BASE_ENVIRONMENT, ...environment }, cwd };
    return { exitCode: 0, ...(await promisify(execFile)(program, args, options)) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { exitCode: code, stdout, stderr };
  }
}

/**
 * Starts `./petstore WORDS` as a process group of its own. Its standard output goes into `stdout`, or into a pipe that nobody reads
 * yet. `shell` precedes the command.
 */
export function startPetstore(
  words: string[],
  {
    stdin = "",
    stdout = "pipe",
    shell = "",
  }: { stdin?: string; stdout?: number | "pipe"; shell?: string } = {},
) {
  const node = [process.execPath, "--disable-warning=ExperimentalWarning", "scripts/petstore.ts"];
  const child = spawn("sh", ["-c", `${shell} exec "$@"`, "sh", ...node, ...words], {
    stdio: ["pipe", stdout, "pipe"],
    detached: true,
  });
  child.stdin?.end(stdin);
  const outcome = async (stderr: Readable) => {
    const [[code, signal], printed] = await Promise.all([once(child, "close"), text(stderr)]);
    return { exit: code ?? signal, ...splitUsing(printed) };
  };
  return { child, ended: outcome(child.stderr as Readable) };
}

/** What work on many rows prints about its progress, from 10 s on: on a busy machine, also a test of a few rows gets there. */
const PROGRESS = /^ {2}[\d,]+ (of [\d,]+ )?rows, [\d,]+ a second\n/gm;

/** Takes the line that names the databases, and progress, from the standard error of a command. */
export function splitUsing(printed: string): { using: string; stderr: string } {
  const [using = ""] = printed.match(/^Using .*\n/) ?? [];
  return { using, stderr: printed.slice(using.length).replaceAll(PROGRESS, "") };
}

/** The end of the output of `npm start`. */
const ANNOUNCEMENT = /\n {2}curl -i (\S+)\/v1\/pets .*\n\n/;

export type Service = Awaited<ReturnType<typeof start>>;

/**
 * Runs `npm start` in the project or a copy of it, until `stop` is called. Resolves when it has announced the service, which
 * listens at `origin`. The kernel chooses the ports, the debugger's too: a port that is only probed could be taken by another
 * process.
 */
export async function start(state: string, { cwd = "." } = {}) {
  const args = ["start", "--silent", "--", "--port=0", "--inspector-port=0", "--persist-to", state];
  // "detached" makes a process group, so that npm, wrangler and workerd can be ended together.
  const options = { env: BASE_ENVIRONMENT, cwd, detached: true };
  const child = spawn("npm", args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (printed += chunk));
  const announced = new Promise<void>((resolve) => {
    child.stdout.on("data", () => ANNOUNCEMENT.test(printed) && resolve());
  });
  await Promise.race([announced, once(child, "exit")]);
  if (child.exitCode !== null) throw new Error(`npm start exited with ${child.exitCode}:\n${printed}`);
  const [, origin = ""] = printed.match(ANNOUNCEMENT) ?? [];
  // "close" comes after npm, wrangler and workerd have all closed their output.
  const closed = once(child, "close");
  const { pid = Number.NaN } = child;
  const stop = async () => {
    process.kill(-pid, "SIGTERM");
    await closed;
  };
  /** Ends npm alone, like a supervisor that knows no other process. */
  const stopNpmOnly = async () => {
    child.kill("SIGTERM");
    await closed;
  };
  /** The ids of two workerd processes: wrangler's proxy, which has the port, and soon after the announcement the Worker's. */
  const runtimes = async () => {
    const { stdout } = await promisify(execFile)("ps", ["-A", "-o", "pgid=,pid=,args="]);
    const own = stdout.split("\n").map((line) => line.trim().split(/ +/));
    const serving = own.filter(
      ([group, , ...args]) => group === `${pid}` && /workerd serve /.test(args.join(" ")),
    );
    // The system begins with low ids again when it has used the highest.
    const isLater = (id: number) => Number(id < pid);
    return serving.map(([, id]) => Number(id)).sort((a, b) => isLater(a) - isLater(b) || a - b);
  };
  return { origin, printed: () => printed, closed, runtimes, stop, stopNpmOnly };
}

// Without the variables that npm and the test runner set, which would change how commands behave. Above all, npm puts the
// installed Node first in PATH, where a new user has the machine's own.
const BASE_ENVIRONMENT: NodeJS.ProcessEnv = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(VITEST|NODE_|TEST$|MODE$|DEV$|PROD$|npm_|PETSTORE_|INIT_CWD)/.test(name),
    ),
  ),
  PATH: (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => !folder.includes("node_modules"))
    .join(delimiter),
};
