// ./petstore keys log: shows the changes of keys, the latest first.

import { listChanges } from "../../../src/operators/records.ts";
import { findKey, withKeys } from "../../keys/context.ts";
import { AN_ID, COMMON, ID, MANY, PAGE_SIZE } from "../../keys/options.ts";
import { changeJson, changeTable } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [{ ...ID, description: "the key's public ID; without it, all keys", isOptional: true }],
  options: {
    limit: {
      placeholder: "n",
      description: "how many changes, the latest first",
      parse: MANY,
      default: PAGE_SIZE,
    },
    ...COMMON,
  },
  examples: ["", `${AN_ID} --limit 100`],
  handler: (io, options, id) =>
    withKeys(io, options, async (context) => {
      const changes = await listChanges(context.database, id, options.limit);
      // A key that does not exist may have been deleted: its changes stay.
      if (changes.length === 0 && id !== undefined) await findKey(context, id);
      if (options.json) return io.printJson(changes.map(changeJson));
      if (changes.length === 0) return io.note("No changes are recorded.");
      io.print(changeTable(changes, id === undefined));
    }),
});
