// ./petstore usage: what the keys did on the last days, or one key day by day.

import {
  listDays,
  listTotals,
  listUsage,
  readKeyDays,
  USAGE_KEPT_DAYS,
  USAGE_ORDERS,
} from "../../src/operators/usage.ts";
import { findKey, withKeys } from "../keys/context.ts";
import { AN_ID, COMMON, ID, MANY } from "../keys/options.ts";
import { defineCommand, integer } from "../lib/command.ts";
import { UsageError } from "../lib/io.ts";
import { type Column, printReport, withSeparators } from "../lib/report.ts";
import { AGE_NOTE, dayColumns, KEY_DAY_COLUMNS, USAGE_COLUMNS } from "../usage/text.ts";

const SHOWN_DAYS = 7;
/** Fits on a screen. */
const SHOWN_KEYS = 20;

export default defineCommand({
  description:
    "Shows the requests of each key that was used on the last days, the busiest first; with an ID, those of one key on each day. All is measured by the limits that a key has now. A day counts as at a limit if that was used up, whether or not it refused a request. SHARE is the largest share of the limit per day on one of the days. ENOUGH is the key's plan if its limits were not used up, else the smallest plan whose limits these requests would not have used up: a client that waits may need a larger one, because what it did not send is not counted. Requests during a ban are not counted. Each preview counts for itself: with --preview, a count is the sum of all previews, and what is compared with a limit is that of one.",
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
      description: `how many keys (default: ${SHOWN_KEYS}; all with --json and --csv)`,
      parse: MANY,
    },
    sort: { placeholder: "order", description: "the order (default: admitted)", choices: USAGE_ORDERS },
    atLimit: {
      description: "only keys that used up a limit, as it is now, on one of the days",
      conflicts: ["daily", "total"],
    },
    total: { description: "each day, of all keys together", conflicts: ["top", "sort", "daily"] },
    daily: {
      description: "each day of each key that was used, in the order of days",
      conflicts: ["top", "sort"],
    },
    csv: { description: "print lines of CSV, with a header", conflicts: ["json"] },
    ...COMMON,
  },
  examples: ["", "--days 30 --sort at-limit --remote", "--daily --days 400 --csv", `${AN_ID} --days 30`],
  async handler(io, options, id) {
    const { days, json, csv, daily, atLimit, total: isTotal, sort = "admitted" } = options;
    if (id !== undefined && (options.top ?? options.sort ?? atLimit ?? daily ?? isTotal) !== undefined)
      throw new UsageError(
        "--top, --sort, --at-limit, --daily and --total are for all keys: leave out the ID, or them",
      );
    const print = async <Row extends object>(
      columns: Column<Row>[],
      pages: AsyncIterable<Row[]> | Row[][],
    ) => {
      const shown = await printReport(io, options, columns, pages);
      if (!json && !csv) io.note(shown === 0 ? `No key was used. ${AGE_NOTE}` : AGE_NOTE);
    };
    await withKeys(io, options, async (context) => {
      const { database, operator } = context;
      const { nowMs } = operator;
      if (daily) return print(KEY_DAY_COLUMNS, readKeyDays(database, nowMs, days));
      if (isTotal) {
        const totals = await listTotals(database, nowMs, days);
        return print(dayColumns(totals), [totals]);
      }
      if (id !== undefined) {
        const used = await listDays(database, id, nowMs, days);
        // A key that does not exist may have been deleted: its rows stay.
        if (!used.some((day) => day.lastAdmittedMs ?? day.lastRefusedMs)) await findKey(context, id);
        return print(dayColumns(used), [used]);
      }
      const limit = options.top ?? (json || csv ? -1 : SHOWN_KEYS);
      const query = { days, sort, limit, isAtLimit: atLimit === true };
      const { keys, total } = await listUsage(database, nowMs, query);
      const more = total - keys.length;
      if (more > 0) io.report(`Keys that are not shown: ${withSeparators(more)}. --top ${total} shows all.`);
      await print(USAGE_COLUMNS, [keys]);
    });
  },
});
