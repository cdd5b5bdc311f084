// ./petstore keys list: shows keys, with filters and pages.

import { InvalidArgumentError } from "commander";
import { withoutSecrets } from "../../../src/keys/secret.ts";
import { EXPIRING_DAYS, LIST_ORDERS, LIST_STATES, listKeys } from "../../../src/operators/records.ts";
import { USAGE_KEPT_DAYS } from "../../../src/operators/usage.ts";
import { findUnfinished, finishLine } from "../../cloudflare/time-travel.ts";
import { warnOfPlans, withKeys } from "../../keys/context.ts";
import { COMMON, MANY, PAGE_SIZE, PLAN } from "../../keys/options.ts";
import { keyJson, LIST_COLUMNS } from "../../keys/text.ts";
import { defineCommand, integer } from "../../lib/command.ts";
import { petstoreLine } from "../../lib/line.ts";
import { tableOf } from "../../lib/report.ts";

const EVER = "ever";

export default defineCommand({
  options: {
    search: {
      placeholder: "text",
      description:
        "a part of the name, the ref, the note or the ID, or the last four characters of the key, also a replaced one",
      parse: searchText,
    },
    plan: { placeholder: "plan", ...PLAN, description: "only this plan" },
    state: {
      placeholder: "state",
      description: `only this state; expiring is within ${EXPIRING_DAYS} days`,
      choices: LIST_STATES,
    },
    unused: {
      placeholder: "days",
      description:
        "only keys that were never used since their secret was made, or with DAYS, that exist for so many days and had no request on them",
      preset: EVER,
      parse: (text: string): number | typeof EVER =>
        text === EVER ? EVER : integer(1, USAGE_KEPT_DAYS)(text),
    },
    sort: { placeholder: "order", description: "the order (default: created)", choices: LIST_ORDERS },
    limit: {
      placeholder: "n",
      description: `keys per page (default: ${PAGE_SIZE}; all with --json)`,
      parse: MANY,
    },
    page: { placeholder: "n", description: "the page (default: 1)", parse: MANY },
    ...COMMON,
  },
  examples: ["--search shop --plan pro", "--state expiring --sort expires --json", "--unused --remote"],
  async handler(io, options) {
    const { json, page = 1, search, plan, state, unused, sort } = options;
    const limit = options.limit ?? (json && options.page === undefined ? -1 : PAGE_SIZE);
    await withKeys(io, options, async (context) => {
      const { database, operator, where } = context;
      const offset = (page - 1) * Math.max(limit, 0);
      const query = { search, plan, state, unused, sort, limit, offset };
      const { keys, total } = await listKeys(database, operator.nowMs, query);
      warnOfPlans(context, keys);
      const last = offset + keys.length;
      if (json) io.printJson(keys.map(keyJson));
      else if (keys.length > 0) io.print(tableOf(LIST_COLUMNS, keys));
      const given = { search, plan, state, unused, sort, limit: options.limit };
      const words = Object.entries(given).flatMap(([name, value]) =>
        value ? [`--${name}`, ...(value === EVER ? [] : [`${value}`])] : [],
      );
      const pageLine = (number: number) =>
        petstoreLine("keys list", ...words, "--page", `${number}`, ...(json ? ["--json"] : []), ...where);
      if (keys.length > 0) {
        const next = last < total ? ` Next: ${pageLine(page + 1)}` : "";
        if (total > keys.length) io.report(`Keys ${offset + 1} to ${last} of ${total}.${next}`);
      } else if (offset > 0) io.note(`There is no page ${page}.`);
      else if (search || plan || state || unused)
        io.note(
          `No key matches. ${petstoreLine("keys find", ...where)} reads a whole key, also a replaced one.`,
        );
      else {
        const unfinished = await findUnfinished(database);
        const next = unfinished
          ? `A restore is unfinished: finish it with ${finishLine(unfinished, where)}`
          : `Next: ${petstoreLine("keys create --name NAME --plan free", ...where)}`;
        io.note(`No keys yet. ${next}`);
      }
    });
  },
});

function searchText(text: string): string {
  if (text.startsWith("--")) throw new InvalidArgumentError("It looks like an option.");
  if (text.trim() === "") throw new InvalidArgumentError("It must not be blank.");
  if (withoutSecrets(text) === text) return text;
  throw new InvalidArgumentError(
    "It looks like an API key, and is in your shell's history now: keys find reads one from standard input.",
  );
}
