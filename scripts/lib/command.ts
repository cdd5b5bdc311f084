// What every command has: arguments (commander), output, questions, progress, and failures in one line on standard error. Results
// go to standard output, everything else to standard error. Exit codes: 0, 1 if the command failed, 2 if its usage was wrong.

import { createInterface } from "node:readline/promises";
import type { Readable, Writable } from "node:stream";
import {
  Command,
  CommanderError,
  type CommandUnknownOpts,
  InvalidArgumentError,
} from "@commander-js/extra-typings";
import { distance } from "fastest-levenshtein";
import yoctoSpinner from "yocto-spinner";
import { withoutSecrets } from "../../src/keys/secret.ts";

/** Wrong usage: exit code 2. The message says what to do. */
export class UsageError extends Error {}

/** A failure whose output is complete: no line is added. */
export class ReportedError extends Error {}

export interface Streams {
  stdin: Readable & { isTTY?: boolean };
  stdout: Writable;
  stderr: Writable & { isTTY?: boolean };
  env: NodeJS.ProcessEnv;
}

/** Builds a command that works on `io`. The default export of each command's file. */
export type Define = (io: Io) => CommandUnknownOpts;

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

  /** Announces work, with a spinner in a terminal, and does it. */
  async step<Result>(text: string, work: () => Promise<Result>): Promise<Result> {
    if (!this.stderr.isTTY) this.note(text);
    const spinner = this.stderr.isTTY
      ? yoctoSpinner({ text, stream: this.stderr as NodeJS.WriteStream }).start()
      : undefined;
    try {
      const result = await work();
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

/** A new command. `usage` is how people type it, such as `npm run deploy`. */
export function newCommand(usage: string, summary: string, ...examples: string[]): Command {
  const command = new Command(`${usage} --`)
    .description(summary)
    .helpCommand(false)
    .exitOverride()
    .configureHelp({ showGlobalOptions: true });
  return withExamples(command, ...examples.map((example) => `${usage}${example && ` -- ${example}`}`));
}

/** Adds examples, which are complete lines, to the help. */
export function withExamples<Any extends CommandUnknownOpts>(command: Any, ...lines: string[]): Any {
  command.addHelpText("after", `\nExamples:\n${lines.map((line) => `  ${line}`).join("\n")}`);
  return command;
}

/** Runs a command and returns its exit code. */
export async function runCommand(define: Define, args: string[], streams: Streams): Promise<number> {
  const io = new Io(streams);
  const command = define(io);
  for (const each of [command, ...command.commands]) {
    each.configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: () => {},
      getOutHelpWidth: () => 100,
      getErrHelpWidth: () => 100,
    });
  }
  try {
    requireSeparator(command, args, io.env);
    await command.parseAsync(args, { from: "user" });
    return 0;
  } catch (error) {
    if (!(error instanceof CommanderError)) {
      if (!(error instanceof ReportedError)) io.note(failureLine(error));
      return error instanceof UsageError ? 2 : 1;
    }
    if (error.exitCode === 0) return 0;
    // Without a subcommand, the help was written.
    if (error.code !== "commander.help") {
      // npm also takes some options without a trace, and passes on their values.
      const hint = error.code === "commander.excessArguments" ? ' (is "--" missing before the options?)' : "";
      const problem = error.message.replace(/^error: |\.$/g, "").replaceAll("\n", " ") + hint;
      const found = command.commands.find((each) => each.name() === args[0]);
      const name = [command.name(), ...(found ? [found.name()] : [])].join(" ");
      io.note(failureLine(`${problem}; see ${name} --help`));
    }
    return 2;
  }
}

/** npm takes options for itself if the `--` before them is missing, and leaves them in the environment. */
function requireSeparator(root: CommandUnknownOpts, args: string[], env: NodeJS.ProcessEnv): void {
  const found = root.commands.find((each) => each.name() === args[0]);
  const command = found ?? root;
  const taken = command.options.flatMap((option) => {
    const value = takenValue(option.long ?? "", env);
    const isGiven = args.some((arg) => arg.split("=")[0] === option.long);
    return value === undefined || isGiven ? [] : [{ option, value }];
  });
  if (taken.length === 0) return;
  const missing = command.options.filter(
    (option) => option.mandatory && taken.every((each) => each.option !== option),
  );
  // npm takes an option as a flag, and passes its value on as an argument, unless there is a "=".
  const options = taken.map(({ option, value }) =>
    option.isBoolean() ? option.long : value === "true" ? option.flags : `${option.long} ${shellWord(value)}`,
  );
  const given = command.registeredArguments.flatMap((argument, index) => {
    const value = args[found ? index + 1 : index];
    if (value !== undefined && accepts(argument.parseArg, value)) return [shellWord(value)];
    return argument.required ? [`<${argument.name()}>`] : [];
  });
  const words = [root.name(), found?.name(), ...given, ...options, ...missing.map(({ flags }) => flags)];
  const names = taken.map(({ option }) => option.long).join(", ");
  const line = words.filter((word) => word !== undefined).join(" ");
  throw new UsageError(`npm took ${names} for itself, because "--" is missing: type ${line}`);
}

/** What npm makes of options whose letters or beginning it knows. */
const KNOWN_TO_NPM: Record<string, string[]> = {
  "--plan": ["parseable", "long", "all"],
  "--by": ["bypass_2fa"],
  "--days": ["all", "yes"],
};

/** The value of an option that npm took, also of a mistyped one; "true" if npm passed it on. Short names must be exact. */
function takenValue(option: string, env: NodeJS.ProcessEnv): string | undefined {
  const known = KNOWN_TO_NPM[option];
  if (known?.every((name) => env[`npm_config_${name}`])) return "true";
  const name = option.replaceAll("-", "");
  const tolerated = name.length < 4 ? 0 : name.length < 6 ? 1 : 2;
  const variable = Object.keys(env).find((each) => {
    const [, taken] = each.match(/^npm_config_(.+)$/) ?? [];
    return taken !== undefined && env[each] && distance(taken.replaceAll("_", ""), name) <= tolerated;
  });
  return variable && env[variable];
}

function accepts(parse: ((value: string, previous: never) => unknown) | undefined, value: string): boolean {
  try {
    parse?.(value, undefined as never);
    return true;
  } catch {
    return false;
  }
}

/** A word of a shell's command line. */
export function shellWord(text: string): string {
  return /^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Parses an option's value that is an integer. */
export function integer(min: number, max: number) {
  return (text: string): number => {
    const value = /^[0-9]{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be an integer from ${min} to ${max}.`);
  };
}

/** Parses an option's value that matches `pattern`. `hint` is a sentence. */
export function matching(pattern: RegExp, hint: string) {
  return (text: string): string => {
    if (pattern.test(text)) return text;
    throw new InvalidArgumentError(hint);
  };
}

/** An error as one line, without API keys. */
export function failureLine(error: unknown): string {
  return withoutSecrets(`error: ${messageOf(error).split("\n")[0]}`);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : `${error}`;
}
