// ./petstore keys resume: ends the suspension of keys.

import { resumeKey } from "../../../src/operators/admin.ts";
import { asRecorded } from "../../../src/operators/names.ts";
import { changeKeys } from "../../keys/change.ts";
import { AN_ID, CHANGE_SEVERAL, IDS, recordedText } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [IDS],
  options: {
    reason: {
      placeholder: "text",
      description: "only a key that is suspended for this reason, compared without case",
      parse: recordedText,
    },
    ...CHANGE_SEVERAL,
  },
  examples: [AN_ID, '- --reason "unpaid" --yes < ids.txt'],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Resumed",
      effect: (keys) => `This ends the suspension of ${keys}.`,
      already: () => "is not suspended",
      make: (database, { id: each, suspensionReason }, operator) => {
        const { reason = null } = options;
        return resumeKey(database, each, reason && asRecorded(reason, suspensionReason), operator);
      },
    }),
});
