// npx petstore keys expire: sets or removes the end of a key.

import { setExpiry } from "../../../src/operators/admin.ts";
import { changeKey } from "../../keys/context.ts";
import { AN_ID, CHANGE, expiry, ID } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

const DATE = {
  name: "date",
  description: 'the UTC day whose beginning ends the key, a time, or "never"',
  parse: (text: string) => (text === "never" ? null : expiry(text, ", or never")),
} as const;

export default defineCommand({
  arguments: [ID, DATE],
  options: CHANGE,
  examples: [`${AN_ID} 2027-12-31`, `${AN_ID} never`],
  handler: (io, options, id, expiresAtMs) =>
    changeKey(io, options, id, "Changed the expiry of", ({ database, operator }) =>
      setExpiry(database, id, expiresAtMs, operator),
    ),
});
