// npx petstore keys unban: lifts the ban of a key.

import { unbanKey } from "../../../src/operators/admin.ts";
import { changeKey, findActive } from "../../keys/context.ts";
import { AN_ID, CHANGE, ID } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [ID],
  options: CHANGE,
  examples: [AN_ID, `${AN_ID} --remote`],
  handler: (io, options, id) =>
    changeKey(io, options, id, "Lifted any ban of", async (context) => {
      const { bannedUntilMs } = await findActive(context, id);
      if (bannedUntilMs === null) io.note("No ban is recorded. A ban without a record is lifted too.");
      return unbanKey(context.database, id, context.operator);
    }),
});
