// ./petstore keys log: shows the changes of keys, the latest first.

import { CHANGE_NAMES } from "../../../src/operators/changes.ts";
import { countChanges, readChanges } from "../../../src/operators/records.ts";
import { findKey, withKeys } from "../../keys/context.ts";
import { AN_ID, COMMON, ID, MANY, recordedText, time } from "../../keys/options.ts";
import { changeColumns } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { UsageError } from "../../lib/io.ts";
import { printReport } from "../../lib/report.ts";

export default defineCommand({
  description:
    "shows the changes of a key, or of all keys, the latest first: all of them, unless an option says otherwise. Days begin at midnight UTC",
  arguments: [{ ...ID, description: "the key's public ID; without it, all keys", isOptional: true }],
  options: {
    since: { placeholder: "time", description: "only from this UTC date or time on", parse: time },
    until: { placeholder: "time", description: "only before this UTC date or time", parse: time },
    by: {
      placeholder: "name",
      description: "only those that this operator made, compared without case",
      parse: recordedText,
    },
    kind: { placeholder: "kind", description: "only of this kind", choices: CHANGE_NAMES },
    limit: { placeholder: "n", description: "only the latest so many", parse: MANY },
    ...COMMON,
  },
  examples: ["", `${AN_ID} --since 2026-11-01`, "--kind revoked --by maria --json"],
  async handler(io, options, id) {
    const { since: sinceMs, until: untilMs, by, kind, limit } = options;
    if (sinceMs !== undefined && untilMs !== undefined && sinceMs >= untilMs)
      throw new UsageError("--since must be before --until");
    const query = { id, sinceMs, untilMs, by, kind };
    await withKeys(io, options, async (context) => {
      const pages = readChanges(context.database, query, limit);
      const shown = await printReport(io, options, changeColumns(id === undefined), pages);
      // A key that does not exist may have been deleted: its changes stay.
      if (shown === 0 && id !== undefined) await findKey(context, id);
      if (shown === 0) io.note("No such changes are recorded.");
      if (shown !== limit) return;
      const total = await countChanges(context.database, query);
      if (total > shown) io.report(`These are the latest ${shown} of ${total} changes.`);
    });
  },
});
