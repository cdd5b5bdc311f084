// ./petstore status: the state of a target at a glance. What can't be read is said in its place, and the rest is shown. Then the
// command fails if the service at a given URL does not answer, or a database is damaged: a monitor looks at the exit code.

import { waitingForCalls } from "../cloudflare/account.ts";
import { pendingText, targetOptions } from "../cloudflare/database.ts";
import { announceTarget, readTarget } from "../cloudflare/target.ts";
import { readOrigin } from "../deploy/smoke-test.ts";
import { COMMON } from "../keys/options.ts";
import { defineCommand, integer } from "../lib/command.ts";
import { agoText } from "../lib/time.ts";
import { isUnknown, LOCAL_URL, openEach, readStatus, type Status } from "../status/read.ts";
import { statusText } from "../status/text.ts";

/** Ten years. */
const MAX_HOURS = 87_600;

export default defineCommand({
  description:
    "Shows which build answers, how full the databases are (what deletions have freed does not count), how fast they grow, migrations that are pending, the latest backup, a restore that is unfinished, and how many keys are in each state (a key can be in several); for production also the requests of the last hour, from Cloudflare's log. Always shows all of that. Exits with 1 if no service answers at a given --url, if a database or one of its tables can't be read, or if the latest backup is older than --backup-age. Of local databases, every page is checked, of others one row of each table.",
  options: {
    url: {
      placeholder: "url",
      description: `the service's URL (default: ${LOCAL_URL} with the local databases)`,
      parse: readOrigin,
    },
    backupAge: {
      placeholder: "hours",
      description: "exit with 1 if there is no backup, or the latest one began more than HOURS ago",
      parse: integer(1, MAX_HOURS),
    },
    tables: {
      description:
        "also show which tables are large, and find damage anywhere in them: reads every row, for $0.001 a million",
    },
    ...COMMON,
  },
  examples: [
    "",
    "--remote --backup-age 26",
    "--remote --url https://petstore.example",
    "--preview staging --json",
  ],
  async handler(io, { url, json, backupAge, tables = false, ...options }) {
    const target = readTarget(io, options);
    const isLocal = target.kind === "local";
    announceTarget(io, target);
    const open = () => openEach(target);
    const opened = await (isLocal ? open() : io.step("Opening the databases", open));
    const read = () => readStatus(target, opened, url, tables, Date.now());
    const status = await (tables ? io.step("Counting rows", () => waitingForCalls(read)) : read());
    await Promise.allSettled(Object.values(opened).map(async (each) => (await each).close()));
    if (json) io.printJson(status);
    else io.print(statusText(status, targetOptions(target)));
    const { build, keysDatabase, petsDatabase, backup, restore, keys } = status;
    const needed = [...(url === undefined ? [] : [build]), keysDatabase, petsDatabase, restore, keys];
    const known = [keysDatabase, petsDatabase].flatMap((each) => (isUnknown(each) ? [] : [each]));
    const lost = known.flatMap(({ missingTables }) => missingTables);
    const problems = new Set(needed.filter(isUnknown).map(({ problem }) => problem));
    if (lost.length > 0) problems.add(`tables are lost: ${lost.join(", ")}`);
    const isNew = known.some(({ pendingMigrations: [first] }) => first?.startsWith("0001_"));
    if (isNew) problems.add(pendingText(target));
    if (backupAge !== undefined) for (const problem of lateness(backup, backupAge)) problems.add(problem);
    if (problems.size > 0) throw new Error([...problems].join("; "));
  },
});

/** What is wrong with the latest backup, if anything. One of a time to come says nothing: a clock is wrong. */
function lateness(backup: Status["backup"], maxHours: number): string[] {
  if (isUnknown(backup)) return [`the latest backup is unknown: ${backup.problem}`];
  if (backup.last === null) return ["there is no backup yet"];
  const { at, ageSeconds } = backup.last;
  if (Math.abs(ageSeconds) <= maxHours * 3_600) return [];
  return [`the latest backup is of ${at}, ${agoText(ageSeconds)}: the limit is ${maxHours} hours`];
}
