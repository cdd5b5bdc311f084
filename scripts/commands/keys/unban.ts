// ./petstore keys unban: lifts the bans of keys.

import { unbanKey } from "../../../src/operators/admin.ts";
import { changeKeys } from "../../keys/change.ts";
import { AN_ID, CHANGE_SEVERAL, IDS } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [IDS],
  options: CHANGE_SEVERAL,
  examples: [AN_ID, `${AN_ID} --remote`, "- --yes < ids.txt"],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Lifted any ban of",
      effect: (keys) => `This lifts any ban of ${keys}.`,
      make: (database, key, operator) => unbanKey(database, key.id, operator),
      explain: (_context, { id: each, bannedUntilMs }) => {
        if (bannedUntilMs === null)
          io.note(`${each} is not banned, by what is recorded. A ban without a record would be lifted too.`);
      },
    }),
});
