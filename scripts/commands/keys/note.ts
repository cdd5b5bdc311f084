// ./petstore keys note: sets or removes the note of keys.

import { setNote } from "../../../src/operators/admin.ts";
import { changeKeys } from "../../keys/change.ts";
import { AN_ID, CHANGE_SEVERAL, IDS, NOTE, orNone } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

const VALUE = {
  name: "note",
  description: `${NOTE.description}; "" removes it`,
  parse: orNone(NOTE.parse),
} as const;

export default defineCommand({
  arguments: [IDS, VALUE],
  options: CHANGE_SEVERAL,
  examples: [`${AN_ID} "pays by invoice"`, `${AN_ID} ""`, '- "" --yes < ids.txt'],
  handler: (io, options, id, note) =>
    changeKeys(io, options, id, {
      done: "Changed the note of",
      isForOperators: true,
      effect: (keys) => `This changes the note of ${keys}.`,
      already: () => (note === null ? "has no note already" : "has this note already"),
      make: (database, key, operator) => setNote(database, key.id, note, operator),
    }),
});
