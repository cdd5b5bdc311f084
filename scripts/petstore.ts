// ./petstore: everything that operators do. Each command has a file in commands/.

import packageJson from "../package.json" with { type: "json" };
import { defineGroup, main, type Program } from "./lib/command.ts";
import { petstoreLine } from "./lib/line.ts";

export const petstore: Program = defineGroup(
  "Operates the service: its keys, databases and deployments. Commands work on the local databases, unless --preview or --remote, or else the variable PETSTORE_TARGET (local, remote or preview:NAME), chooses others. PETSTORE_PERSIST_TO does what --persist-to does.",
  ['keys create --name "Jo\'s shop" --plan pro', "keys create --help"],
  {
    keys: ["create, show and change API keys", () => import("./commands/keys.ts")],
    usage: ["show the requests of each key on the last days", () => import("./commands/usage.ts")],
    status: ["show the state of the service and its databases", () => import("./commands/status.ts")],
    dashboard: [
      "show keys, their usage and the state of the service in a browser",
      () => import("./commands/dashboard.ts"),
    ],
    migrate: ["apply pending migrations", () => import("./commands/migrate.ts")],
    setup: ["create the databases in your account", () => import("./commands/setup.ts")],
    preview: ["deploy to a preview, such as staging", () => import("./commands/preview.ts")],
    deploy: ["deploy to production", () => import("./commands/deploy.ts")],
    smoke: ["test a running service", () => import("./commands/smoke.ts")],
    backup: ["copy both databases into a file", () => import("./commands/backup.ts")],
    restore: [
      "restore the pets to an earlier state, or both databases from a backup",
      () => import("./commands/restore.ts"),
    ],
    completion: [
      "print the script with which a shell completes these commands",
      async () => ({ default: (await import("./commands/completion.ts")).completionOf(petstore) }),
    ],
  },
  `${packageJson.name} ${packageJson.version}`,
);

if (process.argv[1] === import.meta.filename) await main(petstore, petstoreLine());
