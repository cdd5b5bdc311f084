// npm run migrate: applies pending migrations to one database.

import { databaseExists, migrate } from "./cloudflare/database.ts";
import { readTarget, withTargetOptions } from "./cloudflare/target.ts";
import { type Define, newCommand } from "./lib/command.ts";

const define: Define = (io) =>
  withTargetOptions(
    newCommand(
      "npm run migrate",
      "Applies pending migrations to a database, by default the local one. Run it before you deploy a Worker that needs them.",
      "",
      "--remote",
    ),
  ).action(async (options) => {
    const target = readTarget(options);
    const isNew = target.kind === "local" && !databaseExists(target.state);
    const applied = await io.step("Applying pending migrations", () => migrate(target));
    const done = applied.length === 0 ? "No pending migrations" : `Applied ${applied.join(", ")}`;
    io.print(`${done}${isNew ? " to a new database" : ""}.`);
  });

export default define;
