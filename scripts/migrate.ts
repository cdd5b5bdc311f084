// npm run migrate: applies the migrations that a database has not seen yet, and says which.

import { parseArgs } from "node:util";
import { databaseExists, migrate } from "./cloudflare/database.ts";
import { readTarget, TARGET_OPTIONS } from "./cloudflare/target.ts";
import { runCommand, UsageError } from "./lib/command.ts";

const USAGE = `npm run migrate [-- --persist-to DIR | --preview NAME | --remote]

Applies the migrations that the database has not seen yet: the local one, the one in DIR, that of the previews, or
production's. On a deployed database it comes before the deployment that needs it.`;

await runCommand("migrate", async () => {
  const { help, ...options } = readOptions();
  if (help) return void process.stdout.write(`${USAGE}\n`);
  const target = readTarget(options);
  const isNew = target.kind === "local" && !databaseExists(target.state);
  const applied = await migrate(target);
  const done = applied.length === 0 ? "was up to date" : `is up to date, with ${applied.join(", ")}`;
  process.stdout.write(`The database ${done}${isNew ? ": it is new" : ""}.\n`);
});

function readOptions() {
  try {
    return parseArgs({ options: { ...TARGET_OPTIONS, help: { type: "boolean", short: "h" } } }).values;
  } catch {
    throw new UsageError(
      "npm run migrate takes -- --persist-to DIR, --preview NAME or --remote, and nothing else",
    );
  }
}
