// Scripts of other tools, which run in a process of their own with this terminal.

import { type ChildProcess, spawn } from "node:child_process";

/** Starts a script with this Node. With `ipc`, it can send messages to this process. */
export function spawnScript(args: string[], env = process.env, ipc = false): ChildProcess {
  const child = spawn(process.execPath, args, {
    env,
    stdio: ["inherit", "inherit", "inherit", ipc ? "ipc" : "ignore"],
  });
  // Ctrl+C reaches the whole process group: this process waits for the script to end. Other signals may reach only this one.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => child.kill(signal));
  return child;
}
