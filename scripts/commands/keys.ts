// ./petstore keys: the commands on API keys.

import { defineGroup, type Program } from "../lib/command.ts";

const keys: Program = defineGroup(
  "ID is a key's public ID, as list shows it, never the key itself.",
  ['create --name "Jo\'s shop" --plan pro', "list --state banned --remote"],
  {
    create: ["create a key, or those of a file, and print them", () => import("./keys/create.ts")],
    list: ["list keys, with their states and bans", () => import("./keys/list.ts")],
    find: ["say whose a key is, also a replaced one", () => import("./keys/find.ts")],
    show: ["show all about a key", () => import("./keys/show.ts")],
    rename: ["rename a key", () => import("./keys/rename.ts")],
    ref: ["set the customer's ID in a system of yours", () => import("./keys/ref.ts")],
    note: ["set the note about the customer of a key", () => import("./keys/note.ts")],
    expire: ["set or remove the expiry of a key", () => import("./keys/expire.ts")],
    plan: ["change the plan of a key; what it has used stays counted", () => import("./keys/plan.ts")],
    access: ["let a key only read, or write too", () => import("./keys/access.ts")],
    rotate: ["replace a key by a new one with the same ID, and print it", () => import("./keys/rotate.ts")],
    "end-grace": [
      "end the grace of replaced keys now; the current key goes on",
      () => import("./keys/end-grace.ts"),
    ],
    suspend: ["refuse the requests of a key until it is resumed", () => import("./keys/suspend.ts")],
    resume: ["end the suspension of a key", () => import("./keys/resume.ts")],
    revoke: ["end a key for good", () => import("./keys/revoke.ts")],
    unban: ["lift the ban of a key", () => import("./keys/unban.ts")],
    log: ["show the changes of a key, or of all keys", () => import("./keys/log.ts")],
    help: [
      "show the help of a command",
      async () => ({ default: (await import("./help.ts")).helpOf(keys, "keys", ["create", "rotate"]) }),
    ],
  },
);

export default keys;
