// ./petstore migrate: applies pending migrations to the databases of a target.

import { existsSync } from "node:fs";
import { CONTENTS, createDatabases, databaseFile, migrate } from "../cloudflare/database.ts";
import { announceTarget, readTarget, TARGET_OPTIONS } from "../cloudflare/target.ts";
import { defineCommand } from "../lib/command.ts";

export default defineCommand({
  description:
    "Applies pending migrations to the databases of keys and of pets, by default the local ones. Run it before you deploy a Worker that needs them.",
  options: TARGET_OPTIONS,
  examples: ["", "--remote"],
  async handler(io, options) {
    const target = readTarget(io, options);
    announceTarget(io, target);
    for (const contents of CONTENTS) {
      const isNew = target.kind === "local" && !existsSync(databaseFile(target.state, contents));
      const applied = await io.step(`Applying pending migrations of ${contents}`, async () => {
        const databases = await createDatabases(target, contents);
        return migrate(databases[contents], contents).finally(databases.close);
      });
      const done =
        applied.length === 0 ? `No pending migrations of ${contents}` : `Applied ${applied.join(", ")}`;
      io.print(`${done}${isNew ? " to a new database" : ""}.`);
    }
  },
});
