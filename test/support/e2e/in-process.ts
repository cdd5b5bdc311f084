// Runs a command in the process of the test, through streams: starting a process takes longer than most commands.

import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { type Define, runCommand } from "../../../scripts/lib/command.ts";
import type { Outcome } from "./petstore.ts";

interface Options {
  /** What somebody types before the end of the input. */
  stdin?: string;
  /** Whether standard input is a terminal. Standard error is none, because spinners need a real one. */
  isTTY?: boolean;
  /** The whole environment. */
  env?: NodeJS.ProcessEnv;
}

/** The outcome of `npm run COMMAND -- ARGUMENTS`. */
export async function runCommandInProcess(
  define: Define,
  args: string[],
  { stdin = "", isTTY = false, env = {} }: Options = {},
): Promise<Outcome> {
  const input = Object.assign(new PassThrough(), { isTTY });
  input.end(stdin);
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const written = Promise.all([text(stdout), text(stderr)]);
  const exitCode = await runCommand(define, args, { stdin: input, stdout, stderr, env });
  stdout.end();
  stderr.end();
  const [out, err] = await written;
  return { exitCode, stdout: out, stderr: err };
}
