// ./petstore keys resume: ends the suspension of keys.

import { resumeKey } from "../../../src/operators/admin.ts";
import { changeKeys } from "../../keys/change.ts";
import { AN_ID, CHANGE_SEVERAL, IDS } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [IDS],
  options: CHANGE_SEVERAL,
  examples: [AN_ID, "- --yes < ids.txt"],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Resumed",
      effect: (keys) => `This ends the suspension of ${keys}.`,
      make: resumeKey,
    }),
});
