// Output, questions, progress and failures of commands. Results go to standard output, everything else to standard error.

import { createInterface } from "node:readline/promises";
import type { Readable, Writable } from "node:stream";
import yoctoSpinner from "yocto-spinner";
import { withoutSecrets } from "../../src/keys/secret.ts";

/** Wrong usage: exit code 2. The message says what to do. */
export class UsageError extends Error {}

/** A failure whose output is complete: no line is added. */
export class ReportedError extends Error {}

/** Where no terminal shows the progress of work, lines do. */
const PROGRESS_MS = 10_000;

export interface Streams {
  stdin: Readable & { isTTY?: boolean };
  stdout: Writable;
  stderr: Writable & { isTTY?: boolean };
  env: NodeJS.ProcessEnv;
}

export class Io implements Streams {
  readonly stdin: Streams["stdin"];
  readonly stdout: Writable;
  readonly stderr: Streams["stderr"];
  readonly env: NodeJS.ProcessEnv;

  constructor({ stdin, stdout, stderr, env }: Streams) {
    [this.stdin, this.stdout, this.stderr, this.env] = [stdin, stdout, stderr, env];
    // A closed pipe (`| head`) loses output, but doesn't stop the work.
    stdout.on("error", () => {});
  }

  /** Writes a result. */
  print(line: string): void {
    this.stdout.write(`${line}\n`);
  }

  printJson(value: unknown): void {
    this.print(JSON.stringify(value));
  }

  /** Writes something for people, which is not the result. */
  note(line: string): void {
    this.stderr.write(`${line}\n`);
  }

  /** Announces work, with a spinner in a terminal, and does it. Long work tells its progress as often as it likes. */
  async step<Result>(
    text: string,
    work: (progress: (detail: string) => void) => Promise<Result>,
  ): Promise<Result> {
    if (!this.stderr.isTTY) this.note(text);
    const spinner = this.stderr.isTTY
      ? yoctoSpinner({ text, stream: this.stderr as NodeJS.WriteStream }).start()
      : undefined;
    let notedMs = Date.now();
    const progress = (detail: string) => {
      if (spinner) {
        spinner.text = `${text}: ${detail}`;
      } else if (Date.now() - notedMs >= PROGRESS_MS) {
        notedMs = Date.now();
        this.note(`  ${detail}`);
      }
    };
    try {
      const result = await work(progress);
      spinner?.success();
      return result;
    } catch (error) {
      spinner?.error();
      throw error;
    }
  }

  /** Asks for permission, unless `yes`. Throws without it, or if nobody can answer. `consequence` is a sentence. */
  async confirm(consequence: string, yes: boolean | undefined): Promise<void> {
    this.note(consequence);
    if (yes) return;
    if (!this.stdin.isTTY) throw new UsageError("no terminal to ask in: add --yes to do it");
    const terminal = createInterface({ input: this.stdin, output: this.stderr });
    // At the end of the input, the question is never answered.
    const closed = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
    const answer = await Promise.race([terminal.question("Continue? [y/N] "), closed]);
    terminal.close();
    if (!/^y(es)?$/i.test(answer.trim())) throw new Error("cancelled: nothing was changed");
  }
}

/** A word of a shell's command line. */
export function shellWord(text: string): string {
  return /^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** An error as one line, without API keys. */
export function failureLine(error: unknown): string {
  return withoutSecrets(`error: ${messageOf(error).split("\n")[0]}`);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : `${error}`;
}
