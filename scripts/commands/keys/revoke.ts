// ./petstore keys revoke: ends keys for good.

import { revokeKey } from "../../../src/operators/admin.ts";
import { changeKeys } from "../../keys/change.ts";
import { AN_ID, CHANGE_SEVERAL, IDS } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [IDS],
  options: CHANGE_SEVERAL,
  examples: [AN_ID, `${AN_ID} --yes`, "- --yes < ids.txt"],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Revoked",
      effect: (keys) => `This ends ${keys} for good: it can't be undone.`,
      isFinal: ({ revokedAtMs }) => revokedAtMs === null,
      already: () => "is revoked already",
      make: (database, key, operator) => revokeKey(database, key.id, operator),
    }),
});
