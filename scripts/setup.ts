// npm run setup: creates the databases of production and of the previews in an account, enables read replication and applies
// migrations. Safe to repeat: it skips what is already done.

import { openAccount } from "./cloudflare/account.ts";
import { deployedDatabase, type Target } from "./cloudflare/database.ts";
import { prepareDatabase } from "./deploy/deployment.ts";
import { print, readArguments, runCommand, UsageError } from "./lib/command.ts";

/** D1's location hints. */
const LOCATIONS = ["weur", "eeur", "apac", "oc", "wnam", "enam"];

const USAGE = `npm run setup -- --location ${LOCATIONS.join("|")} [--dry-run]

Creates the databases of production and of the previews in your account, enables read replication, and applies migrations.
It skips what is already done, so you can repeat it. A database can't be moved after it was created: choose the location
from which most pets are added.
--dry-run prints the steps; it needs no account.`;

const TARGETS: Target[] = [{ kind: "production" }, { kind: "preview", name: "any" }];

await runCommand("setup", async () => {
  const flag = { type: "boolean", default: false } as const;
  const { values } = readArguments("setup", {
    options: { location: { type: "string" }, "dry-run": flag, help: { ...flag, short: "h" } },
  });
  const { help, location, "dry-run": dryRun } = values;
  if (help) return print(USAGE);
  if (location !== undefined && !LOCATIONS.includes(location)) {
    throw new UsageError(`--location must be one of ${LOCATIONS.join(", ")}`);
  }
  for (const target of TARGETS) {
    const { name, find } = await deployedDatabase(target);
    if (dryRun) {
      print(`Database ${name}: would be created in ${location ?? "the --location"} if it does not exist`);
      print("  read replication would be enabled, and pending migrations applied");
      continue;
    }
    const ask = await openAccount();
    let found = await find();
    if (found === undefined) {
      if (location === undefined) {
        throw new UsageError(`database ${name} does not exist: add --location ${LOCATIONS.join("|")}`);
      }
      print(`Database ${name}: creating it in ${location}`);
      found = await ask<{ uuid: string }>("/d1/database", { name, primary_location_hint: location });
    } else {
      print(`Database ${name}: already exists`);
    }
    if (found.read_replication?.mode !== "auto") {
      print(`Database ${name}: enabling read replication`);
      await ask(`/d1/database/${found.uuid}`, { read_replication: { mode: "auto" } }, "PUT");
    }
    await prepareDatabase(target, print);
  }
  print(
    dryRun ? "Nothing was changed." : "Setup complete. Next: npm run preview -- staging, then npm run deploy",
  );
});
