// Runs the project's commands as a new user does: with npm, in a temporary state folder, over real sockets.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";

/** The path of a state folder that does not exist yet, and a function that removes it. */
export async function emptyState() {
  const parent = await mkdtemp(join(tmpdir(), "petstore-test-"));
  return { state: join(parent, "state"), remove: () => rm(parent, { recursive: true, force: true }) };
}

export interface Outcome {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** Runs `npm run --silent SCRIPT -- ARGUMENTS`: standard output has only the command's. `environment` adds variables. */
export function npmRun(script: string, args: string[], environment?: NodeJS.ProcessEnv): Promise<Outcome> {
  return runProcess("npm", ["run", "--silent", script, "--", ...args], environment);
}

/** Runs a script with the Node that runs the tests. */
export function runScript(
  file: string,
  args: string[],
  environment?: NodeJS.ProcessEnv,
  cwd?: string,
): Promise<Outcome> {
  return runProcess(process.execPath, [file, ...args], environment, cwd);
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

/** The end of the output of `npm start`. */
const ANNOUNCEMENT = /\n {2}curl -i (\S+)\/v1\/pets .*\n\n/;

interface StartOptions {
  /** Further variables. */
  environment?: NodeJS.ProcessEnv;
  port?: number;
  /** The folder of the project, or of a copy. */
  cwd?: string;
}

export type Service = Awaited<ReturnType<typeof start>>;

/**
 * Runs `npm start` until `stop` is called. Resolves when it has announced the service, which listens at `origin`. By default
 * the kernel chooses the ports, the debugger's too: a port that is only probed could be taken by another process.
 */
export async function start(state: string, { environment = {}, port = 0, cwd = "." }: StartOptions = {}) {
  const args = ["start", "--silent", "--", `--port=${port}`, "--inspector-port=0", "--persist-to", state];
  const env = { ...BASE_ENVIRONMENT, ...environment };
  // "detached" makes a process group, so that npm, wrangler and workerd can be ended together.
  const child = spawn("npm", args, { env, cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
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
  const stop = async () => {
    endGroup(child);
    await closed;
  };
  /** Ends npm alone, like a supervisor that knows no other process. */
  const stopNpmOnly = async () => {
    child.kill("SIGTERM");
    await closed;
  };
  /** Two workerd processes: wrangler's proxy, which has the port, and soon after the announcement the Worker's. */
  const runtimes = () => runtimesOf(child.pid);
  return { origin, printed: () => printed, runtimes, stop, stopNpmOnly };
}

/** Sends requests until the key is banned. Only refusals later than 2 s after the first one of a minute lead to a ban. */
export async function ban(origin: string, key: string): Promise<void> {
  let body = "";
  for (let refusals = 0; !body.includes("key_banned"); ) {
    const headers = { Authorization: `Bearer ${key}` };
    const response = await fetch(`${origin}/v1/nowhere`, { headers });
    body = await response.text();
    if (response.status !== 429) continue;
    // Wait again now and then, because a new minute may have begun.
    if (refusals % 200 === 0) await wait(2_100);
    refusals += 1;
  }
}

/** The workerd processes of a process group. */
async function runtimesOf(group: number | undefined): Promise<{ pid: number; command: string }[]> {
  const { stdout } = await promisify(execFile)("ps", ["-A", "-o", "pgid=,pid=,args="]);
  const processes = stdout.split("\n").map((line) => line.trim().match(/^(\d+) +(\d+) +(.*)/) ?? []);
  return processes
    .filter(([, pgid, , command = ""]) => Number(pgid) === group && /workerd(\.exe)? serve /.test(command))
    .map(([, , pid, command = ""]) => ({ pid: Number(pid), command }));
}

/** Ends npm and all processes below it, if any is left. */
function endGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/**
 * An origin where no server listens: the port is assigned to no service, and only a privileged process can open it. `fetch`
 * does not block it, as it does port 9.
 */
export const UNUSED_ORIGIN = "http://localhost:4";

// Without the variables that npm and the test runner set, which would change how commands behave. Above all, npm puts the
// installed Node first in PATH, where a new user has the machine's own.
const BASE_ENVIRONMENT: NodeJS.ProcessEnv = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_|TEST$|MODE$|DEV$|PROD$|npm_)/.test(name)),
  ),
  PATH: (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => !folder.includes("node_modules"))
    .join(delimiter),
};
