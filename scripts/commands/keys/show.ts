// ./petstore keys show: all about one key. Above all, why its client is refused: its limits and since when they apply, what they have
// refused, a ban, a suspension.

import { warnOfPlans, withKeys } from "../../keys/context.ts";
import { detailsJson, detailsText, readDetails } from "../../keys/details.ts";
import { AN_ID, COMMON, ID } from "../../keys/options.ts";
import { defineCommand } from "../../lib/command.ts";
import { AGE_NOTE } from "../../usage/text.ts";

const SHOWN_CHANGES = 20;

export default defineCommand({
  arguments: [ID],
  options: COMMON,
  examples: [AN_ID, `${AN_ID} --remote`],
  handler: (io, options, id) =>
    withKeys(io, options, async (context) => {
      const details = await readDetails(context, id, options.json ? undefined : SHOWN_CHANGES);
      warnOfPlans(context, [details.key]);
      if (options.json) return io.printJson(detailsJson(details));
      io.print(detailsText(details, context.where));
      io.note(AGE_NOTE);
    }),
});
