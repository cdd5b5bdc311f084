// ./petstore help, and help of each group: what --help prints after a command.

import { choose, defineCommand, type Program } from "../lib/command.ts";
import { petstoreLine } from "../lib/line.ts";

/** `words` choose the group. */
export const helpOf = (group: Program, words: string, examples: string[]) =>
  defineCommand({
    arguments: [{ name: "command", description: "the words of the command", isRest: true }],
    examples,
    async handler(io, _options, typed) {
      const { program, line, summary, args } = await choose(group, petstoreLine(words), "", typed);
      const command = program.build(line, summary, io);
      // A group says that it has no such command.
      if (program.commands !== undefined && args.length > 0) await command.parseAsync(args, { from: "user" });
      else command.outputHelp();
    },
  });
