// A command is data: its arguments, options, examples and handler. commander parses the command line, prints help, and suggests what
// a mistyped word may mean. Exit codes: 0, 1 if the command failed, 2 if its usage was wrong.

import { join } from "node:path";
import { Argument, Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { keyIdIn } from "../../src/keys/secret.ts";
import { failureLine, Io, ReportedError, type Streams, standardOutput, UsageError } from "./io.ts";
import { petstoreLine } from "./line.ts";

/** The text of an argument or an option becomes a value: by `parse`, which throws InvalidArgumentError, or as one of `choices`. */
interface Parsed {
  readonly description: string;
  readonly parse?: (text: string) => unknown;
  readonly choices?: readonly string[];
}

/** With `isRest`, the argument is all remaining words. */
interface ArgumentSpec extends Parsed {
  readonly name: string;
  readonly isOptional?: true;
  readonly isRest?: true;
}

/** `placeholder` stands for the value in the help; an option without it is a flag. `conflicts` are names of options. */
interface OptionSpec extends Parsed {
  readonly placeholder?: string;
  /** commander takes null for a missing value. */
  readonly parse?: (text: string) => NonNullable<unknown>;
  readonly default?: unknown;
  /** The text that stands for a value that was left out: then the option may be without one. */
  readonly preset?: string;
  readonly isRequired?: true;
  readonly conflicts?: readonly string[];
}

/** By name. */
type OptionSpecs = Readonly<Record<string, OptionSpec>>;

type TextValue<Spec> = Spec extends { parse: (text: string) => infer Value }
  ? Value
  : Spec extends { choices: readonly (infer Choice)[] }
    ? Choice
    : string;
type ArgumentValue<Spec> = Spec extends { isRest: true }
  ? TextValue<Spec>[]
  : Spec extends { isOptional: true }
    ? TextValue<Spec> | undefined
    : TextValue<Spec>;
type OptionValue<Spec> = Spec extends { placeholder: string }
  ? Spec extends { isRequired: true } | { default: unknown }
    ? TextValue<Spec>
    : TextValue<Spec> | undefined
  : true | undefined;

type ArgumentValues<Specs extends readonly ArgumentSpec[]> = {
  -readonly [Index in keyof Specs]: ArgumentValue<Specs[Index]>;
};
/** What the handler gets. */
export type OptionValues<Specs extends OptionSpecs> = {
  -readonly [Name in keyof Specs]: OptionValue<Specs[Name]>;
};

interface Definition<Arguments extends readonly ArgumentSpec[], Options extends OptionSpecs> {
  /** Sentences for the command's help; by default its summary in the group. */
  readonly description?: string;
  readonly arguments?: Arguments;
  readonly options?: Options;
  /** What follows the command's name. */
  readonly examples: readonly string[];
  /** Unknown options become arguments, for another program. */
  readonly isForwarding?: true;
  handler(io: Io, options: OptionValues<Options>, ...words: ArgumentValues<Arguments>): Promise<void>;
}

/** A command, or a group of commands. `line` is how people type it: `./petstore keys`. */
export interface Program {
  readonly commands?: Commands;
  build(line: string, summary: string, io: Io): Command;
}

/** The commands of a group: a summary without a full stop, and the file. Only the file of the chosen command is loaded. */
type Commands = Readonly<
  Record<string, readonly [summary: string, load: () => Promise<{ default: Program }>]>
>;

type Chosen = { program: Program; line: string; summary: string; args: string[] };

/** Each group has it, and completion knows it. */
export const HELP_COMMAND = ["help", "show the help of a command"] as const;

export function defineCommand<
  const Arguments extends readonly ArgumentSpec[] = [],
  const Options extends OptionSpecs = Record<never, never>,
>(definition: Definition<Arguments, Options>): Program {
  return {
    build(line, summary, io) {
      const command = newCommand(line, definition.description ?? summary, definition.examples, io);
      for (const spec of definition.arguments ?? []) command.addArgument(argumentOf(spec));
      const specs: OptionSpecs = definition.options ?? {};
      for (const [name, spec] of Object.entries(specs)) command.addOption(optionOf(name, spec));
      if (definition.isForwarding) command.allowUnknownOption();
      else command.option("--quiet", "on standard error, write warnings and failures only");
      // What commander returns has no types of its own.
      const words = () => command.processedArgs as ArgumentValues<Arguments>;
      return command.action(() => {
        const options = command.opts<OptionValues<Options>>();
        io.isQuiet = command.getOptionValue("quiet") === true;
        // commander would do this before it finds mistyped options.
        for (const name of Object.keys(specs))
          if (specs[name]?.isRequired && options[name] === undefined)
            command.error(`required option '${flagOf(name)}' not specified`);
        return definition.handler(io, options, ...words());
      });
    },
  };
}

/** `version` is what `--version` prints. */
export function defineGroup(
  description: string,
  examples: readonly string[],
  commands: Commands,
  version?: string,
): Program {
  return {
    commands,
    build(line, _summary, io) {
      const group = newCommand(line, description, examples, io).helpCommand(...HELP_COMMAND);
      if (version !== undefined) group.version(version, "--version", "print the version");
      for (const [name, [summary]] of Object.entries(commands))
        group.addCommand(new Command(name).summary(summary));
      return group;
    },
  };
}

/** The command that the first words choose, or the group that has no such command, and the other words. */
export async function choose(
  program: Program,
  line: string,
  summary: string,
  args: string[],
): Promise<Chosen> {
  const [name = "", ...rest] = args;
  if (name === "help" && program.commands !== undefined) {
    const words = rest.filter((each) => !each.startsWith("-"));
    const chosen = await choose(program, line, summary, words);
    // A group says that it has no such command.
    const isUnknown = chosen.program.commands !== undefined && chosen.args.length > 0;
    return isUnknown ? chosen : { ...chosen, args: ["--help"] };
  }
  if (!Object.hasOwn(program.commands ?? {}, name)) return { program, line, summary, args };
  const [ofCommand = "", load] = program.commands?.[name] ?? [];
  const chosen = (await load?.())?.default ?? program;
  return choose(chosen, `${line} ${name}`, ofCommand, rest);
}

function newCommand(line: string, description: string, examples: readonly string[], io: Io): Command {
  const lines = examples.map((example) => `  ${line} ${example}`.trimEnd());
  return new Command(line)
    .description(`${description[0]?.toUpperCase()}${description.slice(1).replace(/\.$/, "")}.`)
    .addHelpText("after", `\nExamples:\n${lines.join("\n")}`)
    .helpCommand(false)
    .configureOutput({
      writeOut: (text) => void io.write(text).catch(() => {}),
      writeErr: (text) => io.stderr.write(text),
      outputError: () => {},
      getOutHelpWidth: () => 100,
      getErrHelpWidth: () => 100,
    })
    .exitOverride((error) => {
      // The help was written, because it was asked for or because a subcommand is missing; or the version.
      if (/^commander\.(help|version)/.test(error.code)) throw error;
      const problem = error.message.replace(/^error: |\.$/g, "").replaceAll("\n", " ");
      throw new UsageError(`${problem}; see ${line} --help`);
    });
}

function argumentOf({ name, description, isOptional, isRest, parse, choices }: ArgumentSpec): Argument {
  const word = isRest ? `${name}...` : name;
  const argument = new Argument(isOptional || isRest ? `[${word}]` : `<${word}>`, description);
  if (choices) argument.choices(choices);
  return parse ? argument.argParser(parse) : argument;
}

function optionOf(name: string, { description, placeholder, parse, choices, ...spec }: OptionSpec): Option {
  const flag = flagOf(name);
  const value = spec.preset === undefined ? `<${placeholder}>` : `[${placeholder}]`;
  const option = new Option(placeholder ? `${flag} ${value}` : flag, description);
  if (spec.preset !== undefined) option.preset(spec.preset);
  if (choices) option.choices(choices);
  // commander also gives the value of an earlier option of this name.
  if (parse) option.argParser((text) => parse(text));
  if (spec.default !== undefined) option.default(spec.default);
  return option.conflicts([...(spec.conflicts ?? [])]);
}

/** `perMinute` is typed `--per-minute`. */
function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Runs a command and returns its exit code. */
export async function runCommand(
  program: Program,
  line: string,
  args: string[],
  streams: Streams,
): Promise<number> {
  const io = new Io(streams);
  try {
    refuseSecrets(args, io.env);
    const chosen = await choose(program, line, "", args);
    const command = chosen.program.build(chosen.line, chosen.summary, io);
    await command.parseAsync(chosen.args, { from: "user" }).catch((error) => {
      // The help or the version was asked for, and written.
      if (!(error instanceof CommanderError && error.exitCode === 0)) throw error;
    });
    await io.finish();
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return 2;
    if (!(error instanceof ReportedError)) io.report(failureLine(error));
    return error instanceof UsageError ? 2 : 1;
  }
}

/**
 * Other programs can read the words of a command line, and the shell keeps them. So a key is lost that is one, or a part of one. npm
 * writes its command line into a log that every user of the machine can read.
 */
function refuseSecrets(args: string[], env: NodeJS.ProcessEnv): void {
  const id = keyIdIn(args.join(" "));
  if (id === undefined) return;
  const { npm_lifecycle_event: isOfNpm, npm_config_cache: cache = "", npm_config_logs_dir: logs } = env;
  const log = isOfNpm ? ` and in npm's log in ${logs || join(cache, "_logs")}` : "";
  throw new UsageError(
    `the command line has an API key of ${id}, so it is in your shell's history${log} now. ${petstoreLine("keys find")}, with the options that choose its databases, reads it from standard input, and says how to end it. Commands take the ID, never the key`,
  );
}

/** Runs a command as this process. */
export async function main(program: Program, line: string): Promise<void> {
  const stdout = standardOutput();
  const exitCode = await runCommand(program, line, process.argv.slice(2), {
    stdin: process.stdin,
    stdout,
    stderr: process.stderr,
    env: process.env,
  });
  process.exitCode = exitCode;
  // A failure may have left other work under way, such as calls that are repeated. The last writes have to be complete, also into a pipe
  // whose reader is slow.
  if (exitCode !== 0) stdout.write("", () => process.stderr.write("", () => process.exit(exitCode)));
}

/** Parses an option's value that is an integer. */
export function integer(min: number, max: number) {
  return (text: string): number => {
    // 010 could be octal, or the digits of an ID.
    const value = /^(0|[1-9][0-9]{0,14})$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be an integer from ${min} to ${max}, without leading zeros.`);
  };
}

/** Parses an option's value that matches `pattern`. `hint` is a sentence. */
export function matching(pattern: RegExp, hint: string) {
  return (text: string): string => {
    if (pattern.test(text)) return text;
    throw new InvalidArgumentError(hint);
  };
}
