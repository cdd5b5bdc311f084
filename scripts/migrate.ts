// npm run migrate: applies pending migrations to one database.

import { databaseExists, migrate } from "./cloudflare/database.ts";
import { readTarget, TARGET_OPTIONS } from "./cloudflare/target.ts";
import { print, readArguments, runCommand } from "./lib/command.ts";

const USAGE = `npm run migrate [-- --persist-to DIR | --preview NAME | --remote]

Applies pending migrations to the local database, the one in DIR, the database of the previews, or production's. Run it
before you deploy a Worker that needs them.`;

await runCommand("migrate", async () => {
  const { values } = readArguments("migrate", {
    options: { ...TARGET_OPTIONS, help: { type: "boolean", short: "h" } },
  });
  if (values.help) return print(USAGE);
  const target = readTarget(values);
  const isNew = target.kind === "local" && !databaseExists(target.state);
  const applied = await migrate(target);
  const done = applied.length === 0 ? "No pending migrations" : `Applied ${applied.join(", ")}`;
  print(`${done}${isNew ? " to a new database" : ""}.`);
});
