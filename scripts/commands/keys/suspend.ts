// ./petstore keys suspend: refuses keys until they are resumed. It asks nothing, because resume undoes it.

import { suspendKey } from "../../../src/operators/admin.ts";
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
    ...CHANGE_SEVERAL,
  },
  examples: [`${AN_ID} --reason "leaked in a public repository"`, '- --reason "unpaid" --yes < ids.txt'],
  handler: (io, options, id) =>
    changeKeys(io, options, id, {
      done: "Suspended",
      effect: (keys) => `This suspends ${keys}.`,
      make: (database, key, operator) => suspendKey(database, key.id, options.reason, operator),
      already: (key) => `is suspended already, ${suspensionText(key)}, which stays`,
      detail: options.reason,
    }),
});
