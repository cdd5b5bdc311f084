// ./petstore setup: creates the databases of production and of the previews in an account, enables read replication and applies
// migrations. Safe to repeat: it skips what is already done.

import { openAccount } from "../cloudflare/account.ts";
import { CONTENTS, deployedDatabase, type Target } from "../cloudflare/database.ts";
import { ALLOW_PACKAGED_NODE } from "../cloudflare/target.ts";
import { prepareDatabase } from "../deploy/deployment.ts";
import { defineCommand } from "../lib/command.ts";
import { petstoreLine } from "../lib/line.ts";

const TARGETS: Target[] = [{ kind: "production" }, { kind: "preview", name: "any" }];
const DATABASES = TARGETS.flatMap((target) => CONTENTS.map((contents) => ({ target, contents })));

export default defineCommand({
  description:
    "Creates the databases of production and of the previews in your account, enables read replication, and applies migrations. It skips what is already done, so you can repeat it.",
  options: {
    location: {
      placeholder: "location",
      description: "where most pets are added: databases can't be moved",
      choices: ["weur", "eeur", "apac", "oc", "wnam", "enam"],
      isRequired: true,
    },
    dryRun: { description: "print the steps; needs no account" },
    ...ALLOW_PACKAGED_NODE,
  },
  examples: ["--location weur", "--location enam --dry-run"],
  async handler(io, { location, dryRun }) {
    const found = DATABASES.map(({ target, contents }) => deployedDatabase(target, contents));
    const names = (await Promise.all(found)).map(({ name }) => name).join(", ");
    if (dryRun) {
      io.print(`Would create the databases ${names} in ${location}, unless they exist,`);
      return io.print("enable read replication, and apply pending migrations.\nNothing was changed.");
    }
    const callApi = await io.step("Finding the account", openAccount);
    io.note(`Preparing the databases ${names} in account ${callApi.label}`);
    for (const { target, contents } of DATABASES) {
      const { name, find } = await deployedDatabase(target, contents);
      const found = await io.step(`Looking for database ${name}`, find);
      const request = { name, primary_location_hint: location };
      const create = () => callApi<NonNullable<typeof found>>("/d1/database", request);
      const database = found ?? (await io.step(`Creating it in ${location}`, create));
      if (database.read_replication?.mode !== "auto") {
        const enable = () =>
          callApi(`/d1/database/${database.uuid}`, { read_replication: { mode: "auto" } }, "PUT");
        await io.step("Enabling read replication", enable);
      }
      await prepareDatabase(io, target, contents);
    }
    io.print("All databases are ready.");
    io.note(`Next: ${petstoreLine("preview staging")}, then ${petstoreLine("deploy")}`);
  },
});
