// ./petstore help: what --help prints after a command.

import { choose, defineCommand, type Program } from "../lib/command.ts";
import { petstoreLine } from "../lib/line.ts";

export const helpOf = (petstore: Program) =>
  defineCommand({
    arguments: [{ name: "command", description: "the words of the command", isRest: true }],
    examples: ["keys create", "backup"],
    async handler(io, _options, words) {
      const { program, line, summary, args } = await choose(petstore, petstoreLine(), "", words);
      const command = program.build(line, summary, io);
      // A group says that it has no such command.
      if (program.commands !== undefined && args.length > 0) await command.parseAsync(args, { from: "user" });
      else command.outputHelp();
    },
  });
