// Runs `npx petstore` in the process of the test, through streams: starting a process takes longer than most commands.

import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { type Program, runCommand } from "../../../scripts/lib/command.ts";
import { petstore } from "../../../scripts/petstore.ts";
import type { Outcome } from "./petstore.ts";

// The tests' own Node may be the packaged one, and their credentials are not real.
delete process.env.PETSTORE_PACKAGED_NODE;

interface Options {
  /** What somebody types before the end of the input. */
  stdin?: string;
  /** Whether standard input is a terminal. Standard error is none, because spinners need a real one. */
  isTTY?: boolean;
  /** The whole environment. */
  env?: NodeJS.ProcessEnv;
  /** By default this project's. */
  program?: Program;
}

/** The outcome of `npx petstore WORDS`. Without the quotes of a shell, a string is split at spaces. */
export async function runPetstore(
  words: string | string[],
  { stdin = "", isTTY = false, env = {}, program = petstore }: Options = {},
): Promise<Outcome> {
  const input = Object.assign(new PassThrough(), { isTTY });
  input.end(stdin);
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const written = Promise.all([text(stdout), text(stderr)]);
  const args = typeof words === "string" ? words.split(" ") : words;
  const exitCode = await runCommand(program, "npx petstore", args, { stdin: input, stdout, stderr, env });
  stdout.end();
  stderr.end();
  const [out, err] = await written;
  return { exitCode, stdout: out, stderr: err };
}
