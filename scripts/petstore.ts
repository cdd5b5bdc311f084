// npx petstore: everything that operators do. Each command has a file in commands/.

import deploy from "./commands/deploy.ts";
import keys from "./commands/keys.ts";
import migrate from "./commands/migrate.ts";
import preview from "./commands/preview.ts";
import restore from "./commands/restore.ts";
import setup from "./commands/setup.ts";
import smoke from "./commands/smoke.ts";
import usage from "./commands/usage.ts";
import { defineGroup, main } from "./lib/command.ts";

export const petstore = defineGroup(
  {
    summary: "operate the service",
    description:
      "Operates the service: its keys, databases and deployments. Commands work on the local databases, unless --preview or --remote chooses others.",
    examples: ['keys create --name "Jo\'s shop" --plan pro', "keys create --help"],
    options: {
      allowPackagedNode: {
        description:
          "let the Node of an npm package use your Cloudflare credential, if this machine's is too old",
      },
    },
  },
  { keys, usage, migrate, setup, preview, deploy, smoke, restore },
);

if (process.argv[1] === import.meta.filename) await main(petstore, "npx petstore");
