// ./petstore keys ref: sets or removes the ref of keys.

import { setRef } from "../../../src/operators/admin.ts";
import { changeKeys } from "../../keys/change.ts";
import { AN_ID, CHANGE_SEVERAL, IDS, orNone, REF } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

const VALUE = {
  name: "ref",
  description: `${REF.description}; "" removes it`,
  parse: orNone(REF.parse),
} as const;

export default defineCommand({
  arguments: [IDS, VALUE],
  options: CHANGE_SEVERAL,
  examples: [`${AN_ID} cus_4711`, `${AN_ID} ""`, '- "" --yes < ids.txt'],
  handler: (io, options, id, ref) =>
    changeKeys(io, options, id, {
      done: "Changed the ref of",
      isForOperators: true,
      effect: (keys) => `This changes the ref of ${keys}.`,
      already: () => (ref === null ? "has no ref already" : "has this ref already"),
      make: (database, key, operator) => setRef(database, key.id, ref, operator),
    }),
});
