// ./petstore usage: what the keys did on the last days, or one key day by day.

import { listDays, listUsage, USAGE_KEPT_DAYS, USAGE_ORDERS } from "../../src/operators/usage.ts";
import { findKey, withKeys } from "../keys/context.ts";
import { AN_ID, COMMON, ID, MANY } from "../keys/options.ts";
import { defineCommand, integer } from "../lib/command.ts";
import { UsageError } from "../lib/io.ts";
import { AGE_NOTE, daysTable, usageJson, usageTable, withSeparators } from "../usage/text.ts";

const SHOWN_DAYS = 7;
/** Fits on a screen. */
const SHOWN_KEYS = 20;

export default defineCommand({
  description:
    "Shows the requests of each key that was used on the last days, the busiest first; with an ID, those of one key on each day. SHARE is the largest share of its limit per day, as it is now, that a key used on one of these days. Requests during a ban are not counted. Each preview counts for itself: with --preview, a count is the sum of all previews, and SHARE is that of one.",
  arguments: [{ ...ID, description: "the key's public ID; without it, all keys", isOptional: true }],
  options: {
    days: {
      placeholder: "n",
      description: "how many UTC days, up to today",
      parse: integer(1, USAGE_KEPT_DAYS),
      default: SHOWN_DAYS,
    },
    top: {
      placeholder: "n",
      description: `how many keys (default: ${SHOWN_KEYS}; all with --json)`,
      parse: MANY,
    },
    sort: { placeholder: "order", description: "the order (default: admitted)", choices: USAGE_ORDERS },
    ...COMMON,
  },
  examples: ["", "--days 30 --sort refused --remote", `${AN_ID} --days 30`],
  async handler(io, options, id) {
    const { days, json, sort = "admitted" } = options;
    if (id !== undefined && (options.top ?? options.sort) !== undefined)
      throw new UsageError("--top and --sort are for all keys: leave out the ID, or them");
    await withKeys(io, options, async (context) => {
      const { database, operator } = context;
      if (id !== undefined) {
        const used = await listDays(database, id, operator.nowMs, days);
        // A key that does not exist may have been deleted: its rows stay.
        if (!used.some((day) => day.lastAdmittedMs ?? day.lastRefusedMs)) await findKey(context, id);
        if (json) return io.printJson(used.map(usageJson));
        io.print(daysTable(used));
        return io.note(AGE_NOTE);
      }
      const limit = options.top ?? (json ? -1 : SHOWN_KEYS);
      const { keys, total } = await listUsage(database, operator.nowMs, { days, sort, limit });
      const more = total - keys.length;
      if (more > 0) io.report(`Keys that are not shown: ${withSeparators(more)}. --top ${total} shows all.`);
      if (json) return io.printJson(keys.map(usageJson));
      if (keys.length === 0) return io.note(`No key was used. ${AGE_NOTE}`);
      io.print(usageTable(keys));
      io.note(AGE_NOTE);
    });
  },
});
