// Scripts of other tools, which run in a process of their own with this terminal.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

/** The signals that are forwarded. Ctrl+C reaches the whole process group: this process waits for the script to end. */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Starts a script with this Node. It can send messages to this process if `ipc`. */
export function spawnScript(args: string[], env = process.env, ipc = false): ChildProcess {
  const stdio = ["inherit", "inherit", "inherit", ipc ? ("ipc" as const) : ("ignore" as const)] as const;
  const child = spawn(process.execPath, args, { env, stdio: [...stdio] });
  const forward = (signal: NodeJS.Signals) => signal === "SIGINT" || child.kill(signal);
  for (const signal of SIGNALS) process.on(signal, forward);
  child.once("exit", () => {
    for (const signal of SIGNALS) process.off(signal, forward);
  });
  return child;
}

/** Waits until a script has ended. */
export async function hasSucceeded(child: ChildProcess): Promise<boolean> {
  const [code] = await once(child, "exit");
  return code === 0;
}
