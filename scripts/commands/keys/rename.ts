// npx petstore keys rename

import { renameKey } from "../../../src/operators/admin.ts";
import { changeKey, warnOfName } from "../../keys/context.ts";
import { AN_ID, CHANGE, ID, keyName } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [ID, { name: "name", description: "the new name", parse: keyName }],
  options: CHANGE,
  examples: [`${AN_ID} "Jo & Ann"`, `${AN_ID} "Jo & Ann" --remote`],
  handler: (io, options, id, name) =>
    changeKey(io, options, id, "Renamed", async (context) => {
      await warnOfName(context, name, id);
      return renameKey(context.database, id, name, context.operator);
    }),
});
