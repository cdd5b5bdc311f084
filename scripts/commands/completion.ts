// ./petstore completion: the script with which a shell completes the commands, made from their declarations. It is static, so that a TAB
// starts no program. Shells find it by the last part of the typed path, so it also works for ./petstore, and for a link of that name.

import type { Argument, Option } from "commander";
import { defineCommand, HELP_COMMAND, type Program } from "../lib/command.ts";
import type { Io } from "../lib/io.ts";

/** What can follow the words of a command, such as `keys create`; they are empty for the program itself. */
interface Place {
  words: string;
  commands: (readonly [name: string, description: string])[];
  options: { word: string; description: string; value?: Value }[];
  argument: Value;
}

/** The choices, or that it is the name of a file. */
type Value = { choices: string[]; isFile: boolean };

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
  const { options, registeredArguments } = program.build("petstore", "", io);
  const commands = Object.entries(program.commands ?? {});
  const inner = commands.map(async ([name, [, load]]) =>
    placesOf((await load()).default, `${words} ${name}`.trim(), io),
  );
  const place = {
    words,
    commands: [
      ...commands.map(([name, [description]]) => [name, description] as const),
      ...(program.commands ? [HELP_COMMAND] : []),
    ],
    options: [HELP, ...options.map(optionOf)],
    argument: {
      choices: registeredArguments.flatMap(({ argChoices = [] }: Argument) => argChoices),
      isFile: registeredArguments.some((each) => each.name() === "file"),
    },
  };
  return [place, ...(await Promise.all(inner)).flat()];
}

function optionOf({ long, description, required, flags, argChoices = [] }: Option) {
  const value = { choices: argChoices, isFile: /<(file|dir)>/.test(flags) };
  return { word: `${long}`, description, ...(required && { value }) };
}

/**
 * For bash and zsh: what prints the words that can follow. Its argument is a command, with `|-` its options, with `|--plan` the values of
 * one. FILE stands for the names of files; an unknown argument is a failure.
 */
function wordsFunction(places: Place[]): string {
  const line = (at: string, words: string[]) => `    "${at}") echo "${words.join(" ")}" ;;`;
  const valuesOf = ({ choices, isFile }: Value) => (isFile ? ["FILE"] : choices);
  const lines = places.flatMap(({ words, commands, options, argument }) => [
    line(words, [...commands.map(([name]) => name), ...valuesOf(argument)]),
    line(
      `${words}|-`,
      options.map(({ word }) => word),
    ),
    ...options.flatMap(({ word, value }) => (value ? [line(`${words}|${word}`, valuesOf(value))] : [])),
  ]);
  return `_petstore_words() {
  case "$1" in
${lines.join("\n")}
    *) return 1 ;;
  esac
}`;
}

/** Goes on with a word of the command line, while the words are those of a command. */
const NEXT = `[[ $word == help ]] && continue
    next="\${command:+$command }$word"
    if _petstore_words "$next" > /dev/null; then command="$next"; else break; fi`;

/** Where the reply is empty, readline completes the names of files. Works in bash 3.2 too, which macOS has. */
function bash(places: Place[]): string {
  return `# bash completion for petstore
${wordsFunction(places)}
_petstore() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" command="" found word next kind=""
  # bash splits --plan=pro into three words.
  if [[ $cur == "=" ]]; then cur=""
  elif [[ $prev == "=" ]]; then prev="\${COMP_WORDS[COMP_CWORD-2]}"
  fi
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    ${NEXT}
  done
  if [[ $cur == -* ]]; then kind="|-"; fi
  found=$(_petstore_words "$command|$prev") || found=$(_petstore_words "$command$kind")
  COMPREPLY=($(compgen -W "\${found#FILE}" -- "$cur"))
}
complete -o default -F _petstore petstore`;
}

function zsh(places: Place[]): string {
  return `#compdef petstore
${wordsFunction(places)}
_petstore() {
  local cur="$words[CURRENT]" prev="$words[CURRENT-1]" command="" found word next kind=""
  if [[ $cur == --*=* ]]; then
    prev="\${cur%%=*}"
    compset -P '*='
  elif [[ $cur == -* ]]; then kind="|-"
  fi
  for word in "\${(@)words[2,CURRENT-1]}"; do
    ${NEXT}
  done
  found=$(_petstore_words "$command|$prev") || found=$(_petstore_words "$command$kind")
  if [[ $found == FILE ]]; then _files; else compadd -- \${=found}; fi
}
if [[ $funcstack[1] == _petstore ]]; then _petstore "$@"; else compdef _petstore petstore; fi`;
}

function fish(places: Place[]): string {
  const quoted = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const lines = places.flatMap(({ words, commands, options, argument }) => {
    const at = `complete -c petstore -n ${quoted(`__petstore_at ${quoted(words)}`)}`;
    const valuesOf = ({ choices }: Value) => (choices.length > 0 ? ` -a ${quoted(choices.join(" "))}` : "");
    return [
      ...commands.map(([name, description]) => `${at} -f -a ${name} -d ${quoted(description)}`),
      `${at}${argument.isFile ? " -F" : ` -f${valuesOf(argument)}`}`,
      ...options.map(({ word, description, value }) => {
        const kind = value ? (value.isFile ? " -r -F" : ` -x${valuesOf(value)}`) : "";
        return `${at} -l ${word.slice(2)}${kind} -d ${quoted(description)}`;
      }),
    ];
  });
  const names = places.flatMap(({ words }) => (words === "" ? [] : [quoted(words)]));
  return `# fish completion for petstore
function __petstore_at
  set -l command
  for word in (commandline -opc)[2..]
    test $word = help; and continue
    switch (string trim -- "$command $word")
      case ${names.join(" ")}
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
