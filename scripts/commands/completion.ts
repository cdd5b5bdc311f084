// ./petstore completion: the script with which a shell completes the commands, made from their declarations. It is static, so that a TAB
// starts no program. Shells find it by the last part of the typed path, so it also works for ./petstore, and for a link of that name.

import type { Option } from "commander";
import { defineCommand, type Program } from "../lib/command.ts";
import type { Io } from "../lib/io.ts";

/** What can follow the words of a command. */
interface Place {
  /** Such as `keys create`; empty for the program itself. */
  words: string;
  commands: Word[];
  options: (Word & { value?: Value })[];
  /** The choices of all arguments, or whether one is a file. */
  argument: Value;
}

interface Word {
  word: string;
  description: string;
}

type Value = { choices: readonly string[]; isFile: boolean };

const HELP = { word: "--help", description: "show the help" };

export const completionOf = (petstore: Program) =>
  defineCommand({
    description:
      "Prints a script that completes commands, options and their choices. bash and zsh source it, from a file or by <(…); fish reads it from ~/.config/fish/completions/petstore.fish.",
    arguments: [{ name: "shell", description: "the shell", choices: ["bash", "zsh", "fish"] }],
    examples: ["bash > ~/.petstore-completion.bash", "fish > ~/.config/fish/completions/petstore.fish"],
    async handler(io, _options, shell) {
      const places = await placesOf(petstore, "", io);
      io.print({ bash, zsh, fish }[shell](places));
    },
  });

async function placesOf(program: Program, words: string, io: Io): Promise<Place[]> {
  const command = program.build("petstore", "", io);
  const inner = await Promise.all(
    Object.entries(program.commands ?? {}).map(async ([name, [, load]]) =>
      placesOf((await load()).default, `${words} ${name}`.trim(), io),
    ),
  );
  const place = {
    words,
    commands: Object.entries(program.commands ?? {}).map(([word, [description]]) => ({ word, description })),
    options: [HELP, ...command.options.map(optionOf)],
    argument: {
      choices: command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
      isFile: command.registeredArguments.some((each) => each.name() === "file"),
    },
  };
  return [place, ...inner.flat()];
}

function optionOf({ long, description, required, flags, argChoices = [] }: Option) {
  const value = { choices: argChoices, isFile: /<(file|dir)>/.test(flags) };
  return { word: `${long}`, description, ...(required && { value }) };
}

const listOf = (words: Word[]) => words.map(({ word }) => word).join(" ");

/** The words that name commands, as patterns of a shell's `case`. */
const namesOf = (places: Place[]) =>
  places.flatMap(({ words }) => (words === "" ? [] : [`"${words}"`])).join("|");

/** Lines of a shell's `case`: what completes the value of an option of a command. */
function valueCases(places: Place[], choose: (choices: readonly string[]) => string, file: string): string {
  const cases = places.flatMap(({ words, options }) =>
    options.flatMap(({ word, value }) => {
      if (value === undefined) return [];
      const { choices, isFile } = value;
      const reply = isFile ? file : choices.length > 0 ? choose(choices) : ":";
      return [`    "${words} ${word}") ${reply}; return ;;`];
    }),
  );
  return cases.join("\n");
}

/** Where the reply is empty, readline completes the names of files. Works in bash 3.2 too, which macOS has. */
function bash(places: Place[]): string {
  const cases = places.map(({ words, commands, options, argument }) => {
    const all = [listOf(commands), ...argument.choices].join(" ").trim();
    return `    "${words}") words="${all}" options="${listOf(options)}" ;;`;
  });
  return `# bash completion for petstore
_petstore() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" command="" words="" options="" i
  # bash splits --plan=pro into three words.
  if [[ $cur == "=" ]]; then cur=""
  elif [[ $prev == "=" ]]; then prev="\${COMP_WORDS[COMP_CWORD-2]}"
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${command:+$command }\${COMP_WORDS[i]}" in
      ${namesOf(places)}) command="\${command:+$command }\${COMP_WORDS[i]}" ;;
      *) break ;;
    esac
  done
  COMPREPLY=()
  case "$command $prev" in
${valueCases(places, (choices) => `COMPREPLY=($(compgen -W "${choices.join(" ")}" -- "$cur"))`, ":")}
  esac
  case "$command" in
${cases.join("\n")}
  esac
  if [[ $cur == -* ]]; then words="$options"; fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _petstore petstore`;
}

function zsh(places: Place[]): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const described = (words: Word[]) =>
    words.map(({ word, description }) => quoted(`${word}:${description.replaceAll(":", "\\:")}`)).join(" ");
  const cases = places.map(({ words, commands, options, argument }) => {
    const list = [described(commands), ...argument.choices].join(" ").trim();
    return `    "${words}") words_of=(${list}) options_of=(${described(options)}) is_file=${argument.isFile} ;;`;
  });
  return `#compdef petstore
_petstore() {
  local cur="$words[CURRENT]" prev="$words[CURRENT-1]" command="" is_file=false i
  local -a words_of options_of
  if [[ $cur == --*=* ]]; then
    prev="\${cur%%=*}"
    compset -P '*='
  fi
  for ((i = 2; i < CURRENT; i++)); do
    case "\${command:+$command }$words[i]" in
      ${namesOf(places)}) command="\${command:+$command }$words[i]" ;;
      *) break ;;
    esac
  done
  case "$command $prev" in
${valueCases(places, (choices) => `compadd -- ${choices.join(" ")}`, "_files")}
  esac
  case "$command" in
${cases.join("\n")}
  esac
  if [[ $cur == -* ]]; then _describe option options_of
  elif $is_file; then _files
  else _describe command words_of
  fi
}
if [[ $funcstack[1] == _petstore ]]; then _petstore "$@"; else compdef _petstore petstore; fi`;
}

function fish(places: Place[]): string {
  const quoted = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const lines = places.flatMap(({ words, commands, options, argument }) => {
    const at = `complete -c petstore -n ${quoted(`__petstore_at ${quoted(words)}`)}`;
    return [
      ...commands.map(({ word, description }) => `${at} -f -a ${word} -d ${quoted(description)}`),
      ...(argument.choices.length > 0 ? [`${at} -f -a ${quoted(argument.choices.join(" "))}`] : []),
      ...(argument.isFile ? [`${at} -F`] : []),
      ...options.map(({ word, description, value }) => {
        const choices = value && value.choices.length > 0 ? ` -a ${quoted(value.choices.join(" "))}` : "";
        const kind = value ? (value.isFile ? " -r -F" : ` -x${choices}`) : "";
        return `${at} -l ${word.slice(2)}${kind} -d ${quoted(description)}`;
      }),
    ];
  });
  return `# fish completion for petstore
function __petstore_at
  set -l command
  for word in (commandline -opc)[2..]
    switch (string trim -- "$command $word")
      case ${places.flatMap(({ words }) => (words === "" ? [] : [quoted(words)])).join(" ")}
        set -a command $word
      case "*"
        break
    end
  end
  test "$command" = "$argv[1]"
end
complete -c petstore -f
${lines.join("\n")}`;
}
