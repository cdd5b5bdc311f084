// ./petstore keys: the commands on API keys.

import { defineGroup } from "../lib/command.ts";

/** The loader of a command of changes.ts. */
const change = (name: keyof typeof import("./keys/changes.ts")) => async () => ({
  default: (await import("./keys/changes.ts"))[name],
});

export default defineGroup(
  "ID is a key's public ID, as list shows it, never the key itself.",
  ['create --name "Jo\'s shop" --plan pro', "list --state banned --remote"],
  {
    create: ["create a key, or those of a file, and print them", () => import("./keys/create.ts")],
    list: ["list keys, with their states and bans", () => import("./keys/list.ts")],
    find: ["say whose a key is, also a replaced one", () => import("./keys/find.ts")],
    show: ["show all about a key", () => import("./keys/show.ts")],
    rename: ["rename a key", change("rename")],
    ref: ["set the customer's ID in a system of yours", change("ref")],
    note: ["set the note about the customer of a key", change("note")],
    expire: ["set or remove the expiry of a key", change("expire")],
    plan: ["change the plan of a key; what it has used stays counted", change("plan")],
    access: ["let a key only read, or write too", change("access")],
    rotate: ["replace a key by a new one with the same ID, and print it", change("rotate")],
    "end-grace": ["end the grace of replaced keys now; the current key goes on", change("endGrace")],
    suspend: ["refuse the requests of a key until it is resumed", change("suspend")],
    resume: ["end the suspension of a key", change("resume")],
    revoke: ["end a key for good", change("revoke")],
    unban: ["lift the ban of a key", change("unban")],
    log: ["show the changes of a key, or of all keys", () => import("./keys/log.ts")],
  },
);
