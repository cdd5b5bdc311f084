// npx petstore keys revoke: ends a key for good.

import { revokeKey } from "../../../src/operators/admin.ts";
import { changeKey, findKey, unchanged } from "../../keys/context.ts";
import { AN_ID, CHANGE, ID, YES } from "../../keys/options.ts";
import { keyOwner } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [ID],
  options: { ...CHANGE, yes: YES },
  examples: [AN_ID, `${AN_ID} --yes`],
  handler: (io, options, id) =>
    changeKey(io, options, id, "Revoked", async (context) => {
      const key = await findKey(context, id);
      if (key.revokedAtMs !== null) throw unchanged(id, { ok: false, problem: "revoked" });
      await io.confirm(`This ends ${keyOwner(key)} for good: it can't be undone.`, options.yes);
      return revokeKey(context.database, id, context.operator);
    }),
});
