// ./petstore keys show: all about one key. Above all, why its client is refused: its limits and since when they apply, what they have
// refused, a ban, a suspension.

import { SHORT_WINDOWS, WINDOW_NAMES } from "../../../src/keys/plans.ts";
import { USAGE_KEPT_DAYS } from "../../../src/operators/usage.ts";
import { warnOfPlans, withKeys } from "../../keys/context.ts";
import {
  detailsJson,
  isUsed,
  type KeyDetails,
  keyFacts,
  lastTimes,
  readDetails,
  SHOWN_DAYS,
} from "../../keys/details.ts";
import { AN_ID, COMMON, ID } from "../../keys/options.ts";
import { changeColumns, counted, printable } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { petstoreLine } from "../../lib/line.ts";
import { tableOf, withSeparators } from "../../lib/report.ts";
import { factsText } from "../../lib/table.ts";
import { formatTime } from "../../lib/time.ts";
import { AGE_NOTE, dayColumns } from "../../usage/text.ts";

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

function detailsText(details: KeyDetails, where: string[]): string {
  const { key, changes, changeCount } = details;
  const days = details.days.slice(-SHOWN_DAYS);
  const earlier = details.days.slice(0, -SHOWN_DAYS).filter(isUsed).length;
  const today = days.at(-1);
  const { lastAdmittedMs, lastRefusedMs } = lastTimes(details.days);
  const facts = keyFacts(details);
  const last = (ms: number | null) =>
    ms === null ? `none recorded in ${USAGE_KEPT_DAYS} days` : formatTime(ms);
  facts.push(["Admitted", `${withSeparators(today?.admitted ?? 0)} today, last ${last(lastAdmittedMs)}`]);
  const refused = WINDOW_NAMES.map((name) => `${withSeparators(today?.refusedBy[name] ?? 0)} by ${name}`);
  facts.push(["Refused", `${refused.join(", ")} today; last ${last(lastRefusedMs)}`]);
  for (const name of SHORT_WINDOWS) {
    const most = Math.max(0, ...days.map(({ busiest }) => busiest[name] ?? 0));
    const ofToday = withSeparators(today?.busiest[name] ?? 0);
    const inAll = `${withSeparators(most)} requests in one ${name} of ${SHOWN_DAYS} days`;
    facts.push(["Busiest", `${inAll}, ${ofToday} today`]);
  }
  const usage = petstoreLine("usage", key.id, "--days", `${USAGE_KEPT_DAYS}`, ...where);
  const ofDays = earlier > 0 ? `\n${counted(earlier, "earlier day")} with requests: ${usage}` : "";
  const log = petstoreLine("keys log", key.id, ...where);
  const ofChanges =
    changeCount > changes.length ? `the latest ${changes.length} of ${changeCount}: ${log}` : "all";
  return `${key.id}  ${printable(key.name)}

${factsText(facts)}

${tableOf(dayColumns(days), days)}${ofDays}

Changes (${ofChanges}):
${changes.length === 0 ? "none" : tableOf(changeColumns(false), changes)}`;
}
