// npx petstore keys show: all about one key.

import { readTarget } from "../../cloudflare/target.ts";
import { findKey, warnOfPlans, withKeys } from "../../keys/context.ts";
import { detailsJson, detailsText, readDetails } from "../../keys/details.ts";
import { AN_ID, COMMON, ID } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";

export default defineCommand({
  arguments: [ID],
  options: COMMON,
  examples: [AN_ID, `${AN_ID} --remote`],
  handler: (io, options, id) =>
    withKeys(io, options, async (context) => {
      const { nowMs } = context.operator;
      const key = await findKey(context, id);
      warnOfPlans(io, [key]);
      const details = await readDetails(context, key, readTarget(options), nowMs);
      if (options.json) io.printJson(detailsJson(details));
      else io.print(detailsText(details, nowMs));
    }),
});
