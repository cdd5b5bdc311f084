// Runs `./petstore` in the process of the test, through streams: starting a process takes longer than most commands.

import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { expect } from "vitest";
import { runCommand } from "../../../scripts/lib/command.ts";
import { petstore } from "../../../scripts/petstore.ts";
import { type Outcome, splitUsing } from "./petstore.ts";

// The tests' own Node may be the packaged one, and their credentials are not real.
delete process.env.PETSTORE_PACKAGED_NODE;

interface Options {
  /** What somebody types in a terminal before the end of the input; without it, nobody can answer. */
  stdin?: string | undefined;
  /** What standard input has, if it is no terminal. */
  piped?: string;
  /** The whole environment. */
  env?: NodeJS.ProcessEnv;
}

/** The outcome of `./petstore WORDS`. `using` is its first line, if that names databases. Without the quotes of a shell, a string is split at spaces. */
export async function runPetstore(
  words: string | string[],
  { stdin, piped, env = {} }: Options = {},
): Promise<Outcome & { using: string }> {
  // Standard error is no terminal, because spinners need a real one.
  const input = Object.assign(new PassThrough(), { isTTY: stdin !== undefined });
  input.end(stdin ?? piped);
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const written = Promise.all([text(stdout), text(stderr)]);
  const args = typeof words === "string" ? words.split(" ") : words;
  const exitCode = await runCommand(petstore, "./petstore", args, { stdin: input, stdout, stderr, env });
  stdout.end();
  stderr.end();
  const [out, err] = await written;
  return { exitCode, stdout: out, ...splitUsing(err) };
}

/** What a command leaves that fails: an exit code, no result, and this in its message. */
export const failure = (exitCode: 1 | 2, problem: string | RegExp) => ({
  exitCode,
  stdout: "",
  stderr: typeof problem === "string" ? expect.stringContaining(problem) : expect.stringMatching(problem),
});
