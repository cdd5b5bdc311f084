// ./petstore keys end-grace: ends the replaced secrets of keys, whose graces last. The current ones go on.

import { endGraces } from "../../../src/operators/admin.ts";
import { changeKeys } from "../../keys/change.ts";
import { AN_ID, CHANGE_SEVERAL, IDS } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";
import { formatTime } from "../../lib/time.ts";

export default defineCommand({
  arguments: [IDS],
  options: CHANGE_SEVERAL,
  examples: [AN_ID, `${AN_ID} --yes`, "- --yes < ids.txt"],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Ended all replaced keys of",
      effect: (keys) => `This ends replaced keys for good, and none that is current. Of: ${keys}.`,
      isFinal: ({ graceUntilMs }) => graceUntilMs !== null,
      make: (database, key, operator) => endGraces(database, key.id, operator),
      already: ({ revokedAtMs }) =>
        revokedAtMs === null ? "has no replaced key that works" : "is revoked, and its replaced keys with it",
      explain: (_context, { id: each, states, graceUntilMs }) => {
        if (states.includes("in-grace") && graceUntilMs !== null)
          io.note(`The replaced keys of ${each} work until ${formatTime(graceUntilMs)} at most.`);
      },
    }),
});
