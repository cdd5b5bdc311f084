// Runs the project's own commands as somebody who has just cloned it does: through npm, in a folder of state of their
// own, over real sockets.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";

/** An empty folder for the state of one test, and what removes it. */
export async function emptyState() {
  const parent = await mkdtemp(join(tmpdir(), "petstore-test-"));
  return { state: join(parent, "state"), remove: () => rm(parent, { recursive: true, force: true }) };
}

/** What a command left: `exitCode` is what the shell sees. */
export interface Outcome {
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** Runs `npm run keys -- ARGUMENTS`. */
export function keys(...words: string[]): Promise<Outcome> {
  return npmRun("keys", words);
}

/** Runs `npm run SCRIPT -- ARGUMENTS`, with more environment if need be. */
export function npmRun(script: string, words: string[], more: NodeJS.ProcessEnv = {}): Promise<Outcome> {
  return outcomeOf("npm", ["run", script, "--", ...words], more);
}

/** Runs a script of the project on the project's own Node, in a folder that is or is like the project's. */
export function runScript(
  file: string,
  words: string[],
  more: NodeJS.ProcessEnv = {},
  cwd = ".",
): Promise<Outcome> {
  return outcomeOf(process.execPath, [file, ...words], more, cwd);
}

/** Runs a command with what a newcomer has on the PATH. */
export async function outcomeOf(
  command: string,
  words: string[],
  more: NodeJS.ProcessEnv = {},
  cwd = ".",
): Promise<Outcome> {
  try {
    return { exitCode: 0, ...(await promisify(execFile)(command, words, { env: { ...env, ...more }, cwd })) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { exitCode: code, stdout, stderr };
  }
}

/** How often is asked whether the service answers, and for how long. */
const LOOK_MS = 100;
const MAX_LOOKS = 600;

/** The last thing that `npm start` prints. */
const ANNOUNCEMENT = /\n {2}curl -i (\S+)\/v1\/pets .*\n\n/;

interface StartOptions {
  /** More of an environment. */
  more?: NodeJS.ProcessEnv;
  port?: number;
  /** A folder that is or is like the project's. */
  cwd?: string;
}

/**
 * Runs `npm start` until `stop` is called; resolves when it has announced the service, which listens at `origin`. By default
 * the kernel chooses the ports, the debugger's too: another test or an outgoing connection can take a port that was only
 * found to be free.
 */
export async function start(state: string, { more = {}, port = 0, cwd = "." }: StartOptions = {}) {
  const words = ["start", "--", "--port", `${port}`, "--inspector-port", "0", "--persist-to", state];
  // A group of its own, so that npm, wrangler and workerd end together, and nobody else's do.
  const stdio = ["ignore", "pipe", "pipe"] as const;
  const child = spawn("npm", words, { env: { ...env, ...more }, cwd, detached: true, stdio: [...stdio] });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (printed += chunk));
  const announced = new Promise<void>((resolve) => {
    child.stdout.on("data", () => ANNOUNCEMENT.test(printed) && resolve());
  });
  await Promise.race([announced, once(child, "exit")]);
  if (child.exitCode !== null) throw new Error(`npm start ended with ${child.exitCode}:\n${printed}`);
  const [, origin = ""] = printed.match(ANNOUNCEMENT) ?? [];
  // Not before npm, wrangler and workerd have all closed what they print to, so all of them are gone.
  const ended = once(child, "close");
  const stop = async () => {
    endGroup(child);
    await ended;
  };
  /** Ends npm alone, as a supervisor does that knows no other process. */
  const stopNpmOnly = async () => {
    child.kill("SIGTERM");
    await ended;
  };
  /** Kills everything at once, which nothing can prepare for. */
  const kill = async () => {
    endGroup(child, "SIGKILL");
    await ended;
  };
  /** Its runtimes: wrangler's proxy, which has the port, and soon after the announcement the Worker's. */
  const runtimes = () => runtimesOf(child.pid);
  /** Kills the Worker's runtime alone, as if it had crashed, and waits until wrangler has started it again. */
  const killRuntime = async () => {
    const found = (await runtimes()).find(({ words }) => words.includes("entry=127.0.0.1:0 "));
    if (found === undefined) throw new Error("the runtime is not there");
    process.kill(found.pid, "SIGKILL");
    await answers(origin);
  };
  return { origin, printed: () => printed, runtimes, stop, stopNpmOnly, kill, killRuntime };
}

/** Waits until the service answers a preflight, which costs nothing. While there is no runtime, wrangler's proxy answers. */
export async function answers(origin: string): Promise<void> {
  const headers = { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" };
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    const answer = await fetch(`${origin}/v1/pets`, { method: "OPTIONS", headers }).catch(() => undefined);
    if (answer?.headers.has("X-Request-Id")) return;
    await wait(LOOK_MS);
  }
  throw new Error("the runtime does not answer");
}

/** Uses a key up and goes on until it is banned. What counts for that comes 2 s after the first refusal of a minute. */
export async function ban(origin: string, key: string): Promise<void> {
  let body = "";
  for (let refusals = 0; !body.includes("key_banned"); ) {
    const headers = { Authorization: `Bearer ${key}` };
    const response = await fetch(`${origin}/v1/nowhere`, { headers });
    body = await response.text();
    if (response.status !== 429) continue;
    // Now and then, because the minute may have ended.
    if (refusals % 200 === 0) await wait(2_100);
    refusals += 1;
  }
}

/** The processes of a group that run workerd. */
async function runtimesOf(group: number | undefined): Promise<{ pid: number; words: string }[]> {
  const { stdout } = await promisify(execFile)("ps", ["-A", "-o", "pgid=,pid=,args="]);
  const processes = stdout.split("\n").map((line) => line.trim().match(/^(\d+) +(\d+) +(.*)/) ?? []);
  return processes
    .filter(([, pgid, , words = ""]) => Number(pgid) === group && /workerd(\.exe)? serve /.test(words))
    .map(([, , pid, words = ""]) => ({ pid: Number(pid), words }));
}

/** Ends npm and everything below it, unless all of that is gone. */
function endGroup(child: ChildProcess, signal: NodeJS.Signals = "SIGTERM"): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/**
 * Where no server listens, and none will: the port is assigned to no service, and only a privileged process can take it. It
 * is not 9, which `fetch` refuses by itself.
 */
export const NOBODY = "http://localhost:4";

// What npm and the test runner set for themselves would change how the commands behave. Above all, npm puts the
// installed Node before the machine's own, which is the one that a newcomer has.
const env: NodeJS.ProcessEnv = {
  ...Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(VITEST|NODE_|TEST$|MODE$|DEV$|PROD$|npm_)/.test(name)),
  ),
  PATH: (process.env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => !folder.includes("node_modules"))
    .join(delimiter),
};
