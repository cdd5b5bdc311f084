// ./petstore keys expire: sets or removes the end of keys.

import { setExpiry } from "../../../src/operators/admin.ts";
import { changeKeys } from "../../keys/change.ts";
import { AN_ID, CHANGE_SEVERAL, expiry, IDS } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";
import { formatTime } from "../../lib/time.ts";

const DATE = {
  name: "date",
  description: 'the UTC day whose beginning ends the key, a time, or "never"',
  parse: expiry,
} as const;

export default defineCommand({
  arguments: [IDS, DATE],
  options: CHANGE_SEVERAL,
  examples: [`${AN_ID} 2027-12-31`, `${AN_ID} never`, "- 2027-12-31 --yes < ids.txt"],
  handler: (io, options, id, expiresAtMs) =>
    changeKeys(io, options, id, {
      done: "Changed the expiry of",
      effect: (keys) =>
        `This sets the expiry of ${keys} to ${expiresAtMs === null ? "never" : formatTime(expiresAtMs)}.`,
      already: () => "has this expiry already",
      make: (database, key, operator) => setExpiry(database, key.id, expiresAtMs, operator),
    }),
});
