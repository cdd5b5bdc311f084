// ./petstore keys access: lets keys only read, or write too. It asks nothing, because it undoes itself.

import { ACCESSES } from "../../../src/keys/key.ts";
import { changeAccess } from "../../../src/operators/admin.ts";
import { changeKeys } from "../../keys/change.ts";
import { AN_ID, CHANGE_SEVERAL, IDS } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [
    IDS,
    { name: "access", description: "read: only GET and HEAD; write: all methods", choices: ACCESSES },
  ],
  options: CHANGE_SEVERAL,
  examples: [`${AN_ID} read`, `${AN_ID} write`, "- read --yes < ids.txt"],
  handler: (io, options, id, access) =>
    changeKeys(io, options, id, {
      done: "Changed the access of",
      effect: (keys) => `This changes the access of ${keys} to ${access}.`,
      already: () => `has the access ${access} already`,
      make: (database, key, operator) => changeAccess(database, key.id, access, operator),
      detail: access,
    }),
});
