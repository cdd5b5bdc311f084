// Output, questions, progress and failures of commands. Results go to standard output, everything else to standard error.

import { fstatSync, ftruncateSync, writeSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { type Readable, Writable } from "node:stream";
import { withoutSecrets } from "../../src/keys/secret.ts";

/** Wrong usage: exit code 2. The message says what to do. */
export class UsageError extends Error {}

/** What is wrong with a path that somebody has typed, by the error of the system call. */
const PATH_PROBLEMS: Record<string, (path: string) => string> = {
  ENOENT: (path) => `there is no ${path}`,
  EISDIR: (path) => `${path} is a folder`,
  ENOTDIR: (path) => `a part of the path ${path} is a file, not a folder`,
  EACCES: (path) => `no permission for ${path}`,
  EPERM: (path) => `no permission for ${path}`,
  ENAMETOOLONG: (path) => `a name in the path ${path} is too long`,
  EROFS: (path) => `${path} is on a file system that can only be read`,
};

/** The error of a system call on a path. Where another path would help, that is wrong usage; anything else stays as it is. */
export function pathError(path: string, error: unknown): unknown {
  const problem = PATH_PROBLEMS[`${(error as NodeJS.ErrnoException).code}`];
  return problem ? new UsageError(problem(path), { cause: error }) : error;
}

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

const CANCELLED = "cancelled: nothing was changed";
const NOT_WRITTEN = "the output could not be written";

/**
 * Control and format characters, and separators of lines: they could rule a terminal, or deceive its reader. Not a joiner within an emoji,
 * or between letters of a script that writes with it; between those of Latin, Greek or Cyrillic it would be invisible.
 */
const UNPRINTABLE =
  /(?!(?<=[[\p{L}\p{M}\p{Emoji_Modifier}\p{Extended_Pictographic}]--[\p{sc=Latin}\p{sc=Greek}\p{sc=Cyrillic}]])[\u200c\u200d](?=[[\p{L}\p{Extended_Pictographic}]--[\p{sc=Latin}\p{sc=Greek}\p{sc=Cyrillic}]]))[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gv;
/** In texts of several lines. */
const UNPRINTABLE_IN_LINES = new RegExp(`(?![\\n\\t])${UNPRINTABLE.source}`, UNPRINTABLE.flags);
const CONTROLS = /(?![\n\t])\p{Cc}/gu;

export class Io implements Streams {
  readonly stdin: Streams["stdin"];
  readonly stdout: Writable;
  readonly stderr: Streams["stderr"];
  readonly env: NodeJS.ProcessEnv;

  /** With --quiet, people get warnings and failures only. */
  isQuiet = false;

  #lost: NodeJS.ErrnoException | undefined;

  constructor({ stdin, stdout, stderr, env }: Streams) {
    [this.stdin, this.stdout, this.stderr, this.env] = [stdin, stdout, stderr, env];
    // Without listeners, an error would end the process in the middle of its work. `write` sees those of results.
    for (const stream of [stdout, stderr]) stream.on("error", () => {});
  }

  /** Writes a result for people. It may have texts from files, databases or the network: what is not printable becomes "?". */
  print(text: string): void {
    this.printOnce(printableLines(text)).catch(() => {});
  }

  /** Writes a result that can't be printed again, such as a key. Rejects if it was not written, also if the pipe is closed. */
  printOnce(line: string): Promise<void> {
    return this.write(`${escaped(line, CONTROLS)}\n`);
  }

  write(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.stdout.write(text, (error) => {
        if (!error) return resolve();
        this.#lost ??= error;
        reject(new Error(`${NOT_WRITTEN}: ${error.message}`));
      });
    });
  }

  /** Waits until the results are written. Throws if some could not be, unless the reader has closed the pipe, as `| head` does. */
  async finish(): Promise<void> {
    await this.write("").catch(() => {});
    if (this.#lost !== undefined && this.#lost.code !== "EPIPE")
      throw new Error(`${NOT_WRITTEN}: ${this.#lost.message}`);
  }

  /** Whether the output continues a file, as with `>>`. */
  get isAppending(): boolean {
    const { fd } = this.stdout as { fd?: number };
    return fd !== undefined && statOf(fd).size > 0n;
  }

  printJson(value: unknown): void {
    this.printOnce(jsonText(value)).catch(() => {});
  }

  /** Writes something for people, which is not the result. */
  note(line: string): void {
    if (!this.isQuiet) this.report(line);
  }

  /** Writes what people have to know also with --quiet: a failure, or the effect of what they are asked. */
  report(line: string): void {
    this.stderr.write(`${printableLines(line)}\n`);
  }

  warn(line: string): void {
    this.report(`warning: ${line}`);
  }

  /** Announces work, with a spinner in a terminal, and does it. Long work tells its progress as often as it likes. */
  async step<Result>(
    text: string,
    work: (progress: (detail: string) => void) => Promise<Result>,
  ): Promise<Result> {
    const hasSpinner = this.stderr.isTTY && !this.isQuiet;
    if (!hasSpinner) this.note(text);
    const spinner = hasSpinner ? await startSpinner(text, this.stderr) : undefined;
    let notedMs = Date.now();
    const progress = (detail: string) => {
      if (spinner) {
        spinner.text = printable(`${text}: ${detail}`);
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
    if (yes) return this.note(consequence);
    this.report(consequence);
    if (!this.stdin.isTTY) throw new UsageError("no terminal to ask in: add --yes to do it");
    if (!/^y(es)?$/i.test(await this.ask("Continue? [y/N] "))) throw new Error(CANCELLED);
  }

  /** Asks in a terminal. Throws without an answer, as after Ctrl+C. A hidden answer is not shown while it is typed. */
  async ask(question: string, { isHidden = false } = {}): Promise<string> {
    const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
    const terminal = isHidden
      ? createInterface({ input: this.stdin, output: nowhere, terminal: true })
      : createInterface({ input: this.stdin, output: this.stderr });
    // Only now: from here on the terminal does not show what is typed.
    if (isHidden) this.stderr.write(question);
    // At the end of the input, the question is never answered.
    const closed = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
    const answer = await Promise.race([terminal.question(isHidden ? "" : question), closed]).catch(() => "");
    terminal.close();
    if (isHidden) this.report("");
    if (answer.trim() === "") throw new Error(CANCELLED);
    return answer.trim();
  }
}

/**
 * Standard output of this process. If a disk is full, a write may end in the middle of a line, and Node takes it for complete. So files
 * get a stream that writes a text whole, or fails and leaves nothing of it.
 */
export function standardOutput(): Writable {
  const { fd } = process.stdout;
  if (!statOf(fd).isFile()) return process.stdout;
  const stream = new Writable({
    write(data: Buffer, _encoding, done) {
      const { size } = statOf(fd);
      try {
        for (let written = 0; written < data.length; ) written += writeSync(fd, data, written);
        done();
      } catch (error) {
        ftruncateSync(fd, Number(size));
        done(error as Error);
      }
    },
  });
  return Object.assign(stream, { fd });
}

/** Node 22.23 mistakes plain numbers about a pipe for those of a folder, and then can't import packages through a link. */
function statOf(fd: number) {
  return fstatSync(fd, { bigint: true });
}

/** Loaded only where it turns: most commands have no steps. */
async function startSpinner(text: string, stream: Streams["stderr"]) {
  const { default: yoctoSpinner } = await import("yocto-spinner");
  return yoctoSpinner({ text: printable(text), stream: stream as NodeJS.WriteStream }).start();
}

/** A text as one line that a terminal only shows. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, "?");
}

function printableLines(text: string): string {
  return text.replace(UNPRINTABLE_IN_LINES, "?");
}

/** A value as JSON, without characters that are not printable. */
export function jsonText(value: unknown): string {
  return escaped(JSON.stringify(value), UNPRINTABLE);
}

/** As JSON escapes characters: there the text stays the same. */
function escaped(text: string, characters: RegExp): string {
  const escapeOf = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return text.replace(characters, (character) => character.split("").map(escapeOf).join(""));
}

/** An error as one line, without API keys. */
export function failureLine(error: unknown): string {
  return withoutSecrets(`error: ${messageOf(error).split("\n")[0]}`);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : `${error}`;
}
