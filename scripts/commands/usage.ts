// npx petstore usage: shows what the keys of production did on the last days, from the log that Cloudflare keeps.

import { openAccount } from "../cloudflare/account.ts";
import { ALLOW_PACKAGED_NODE } from "../cloudflare/target.ts";
import { readConfig } from "../cloudflare/wrangler.ts";
import { defineCommand, integer } from "../lib/command.ts";
import { MAX_DAYS_LOGGED, queryKeys, totalOf } from "../usage/telemetry.ts";
import { daysText } from "../usage/text.ts";

export default defineCommand({
  description: `Shows what each key did on the last UTC days. It reads Cloudflare's log of production, which has ${MAX_DAYS_LOGGED} days (3 on Workers Free).`,
  options: {
    days: {
      placeholder: "n",
      description: "how many days to show, up to today",
      parse: integer(1, MAX_DAYS_LOGGED),
      default: MAX_DAYS_LOGGED,
    },
    json: { description: "print one JSON value" },
    ...ALLOW_PACKAGED_NODE,
  },
  examples: ["", "--days 3 --json"],
  async handler(io, { days: dayCount, json }) {
    const [{ name }, { label }] = await Promise.all([readConfig(), openAccount()]);
    const work = `Reading Cloudflare's log of the Worker ${name} in account ${label}`;
    const { keys, isIncomplete } = await io.step(work, () => queryKeys(dayCount, Date.now()));
    const texts = keys.map(({ keyId, days }) => {
      return `${keyId}: ${totalOf(days).toLocaleString("en")} requests\n\n${daysText(days)}`;
    });
    if (json) io.printJson(keys);
    else io.print(texts.join("\n\n") || "No requests with a valid key.");
    if (isIncomplete)
      io.note("These counts are not exact: Cloudflare left out lines, because there were too many.");
    if (keys.length > 0) io.note("Next, look at a key: npx petstore keys show ID --remote");
  },
});
