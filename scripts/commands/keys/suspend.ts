// ./petstore keys suspend: refuses keys until they are resumed. It asks nothing, because resume undoes it.

import { suspendKey } from "../../../src/operators/admin.ts";
import { asRecorded } from "../../../src/operators/names.ts";
import { changeKeys } from "../../keys/change.ts";
import { AN_ID, CHANGE_SEVERAL, IDS, recordedText } from "../../keys/options.ts";
import { suspensionText } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [IDS],
  options: {
    reason: {
      placeholder: "text",
      description: "why, for the record",
      parse: recordedText,
      isRequired: true,
    },
    replace: { description: "also give another reason to keys that are suspended" },
    ...CHANGE_SEVERAL,
  },
  examples: [`${AN_ID} --reason "leaked in a public repository"`, '- --reason "unpaid" --yes < ids.txt'],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Suspended",
      effect: (keys) => `This suspends ${keys}.`,
      make: (database, { id: each, suspensionReason }, operator) => {
        const reason = asRecorded(options.reason, suspensionReason);
        return suspendKey(database, each, reason, options.replace === true, operator);
      },
      already: (key) => `is suspended already, ${suspensionText(key)}`,
      despite: (each) => ["keys suspend", each, "--reason", options.reason, "--replace"],
      detail: options.reason,
    }),
});
