// npm run setup: makes what a deployment needs in an account, once: the database of production and that of the previews, each
// read from replicas and up to date. What is there already it leaves as it is, so it can be repeated.

import { parseArgs } from "node:util";
import { openAccount } from "./cloudflare/account.ts";
import { deployedDatabase, type Target } from "./cloudflare/database.ts";
import { prepareDatabase } from "./deploy/deployment.ts";
import { print, runCommand, UsageError } from "./lib/command.ts";

/** Where a database can be (D1, provide a location hint). */
const LOCATIONS = ["weur", "eeur", "apac", "oc", "wnam", "enam"];

const USAGE = `npm run setup -- --location ${LOCATIONS.join("|")} [--dry-run]

Makes the databases of production and of the previews in your account, if they are not there; has them read from replicas;
applies migrations. It can be repeated: what is there stays. A new database is made at the location, and can't be moved
later, so name the one where most pets are added from.`;

const TARGETS: Target[] = [{ kind: "production" }, { kind: "preview", name: "any" }];

await runCommand("setup", async () => {
  const { help, location, "dry-run": dryRun } = readOptions();
  if (help) return print(USAGE);
  if (location !== undefined && !LOCATIONS.includes(location)) {
    throw new UsageError(`--location must be one of ${LOCATIONS.join(", ")}`);
  }
  for (const target of TARGETS) {
    const { name, find } = await deployedDatabase(target);
    if (dryRun) {
      print(
        `Database ${name}: would be made in ${location ?? "a --location"} if it is not there, and read from replicas`,
      );
      print("  migrations would be applied");
      continue;
    }
    const ask = await openAccount();
    let found = await find();
    if (found === undefined) {
      if (location === undefined) {
        throw new UsageError(`${name} has to be made: say where, with --location ${LOCATIONS.join("|")}`);
      }
      print(`Database ${name}: makes it in ${location}, where it will stay`);
      found = await ask<{ uuid: string }>("/d1/database", { name, primary_location_hint: location });
    } else {
      print(`Database ${name}: is there, and stays where it is`);
    }
    if (found.read_replication?.mode !== "auto") {
      print(`Database ${name}: has it read from replicas`);
      await ask(`/d1/database/${found.uuid}`, { read_replication: { mode: "auto" } }, "PUT");
    }
    await prepareDatabase(target, print);
  }
  print(
    dryRun ? "Nothing was done." : "All is there. Next: npm run preview -- staging, and then npm run deploy",
  );
});

function readOptions() {
  try {
    const flag = { type: "boolean", default: false } as const;
    return parseArgs({
      options: { location: { type: "string" }, "dry-run": flag, help: { ...flag, short: "h" } },
    }).values;
  } catch {
    throw new UsageError("npm run setup takes -- --location PLACE and --dry-run, and nothing else");
  }
}
