// ./petstore keys rename

import { renameKey } from "../../../src/operators/admin.ts";
import { changeKeys } from "../../keys/change.ts";
import { warnOfName } from "../../keys/context.ts";
import { AN_ID, CHANGE, ID, keyName } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [ID, { name: "name", description: "the new name", parse: keyName }],
  options: CHANGE,
  examples: [`${AN_ID} "Jo & Ann"`, `${AN_ID} "Jo & Ann" --remote`],
  handler: (io, options, id, name) =>
    changeKeys(io, options, id, {
      done: "Renamed",
      isForOperators: true,
      effect: (keys) => `This renames ${keys}.`,
      already: () => "has this name already",
      make: (database, _, operator) => renameKey(database, id, name, operator),
      explain: (context) => warnOfName(context, name, id),
    }),
});
