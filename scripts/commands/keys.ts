// npx petstore keys: the commands on API keys.

import { defineGroup } from "../lib/command.ts";
import create from "./keys/create.ts";
import expire from "./keys/expire.ts";
import list from "./keys/list.ts";
import log from "./keys/log.ts";
import plan from "./keys/plan.ts";
import rename from "./keys/rename.ts";
import revoke from "./keys/revoke.ts";
import rotate from "./keys/rotate.ts";
import show from "./keys/show.ts";
import unban from "./keys/unban.ts";

export default defineGroup(
  {
    summary: "create, show and change API keys",
    description: "ID is a key's public ID, as list shows it, never the key itself.",
    examples: ['create --name "Jo\'s shop" --plan pro', "list --state banned --remote"],
  },
  { create, list, show, rename, expire, plan, rotate, revoke, unban, log },
);
