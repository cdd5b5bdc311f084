// npm run restore: restores a deployed database to an earlier state. This file has the arguments and the output; time-travel.ts
// has the steps.

import { readdir, readFile } from "node:fs/promises";
import { InvalidArgumentError, Option } from "@commander-js/extra-typings";
import * as z from "zod/mini";
import { type DeployedDatabase, openDeployed, pendingMigrations } from "./cloudflare/database.ts";
import { readTarget, targetOptions, withRemoteOptions } from "./cloudflare/target.ts";
import { type Restore, restoreDatabase, saveState } from "./cloudflare/time-travel.ts";
import { type Define, type Io, matching, newCommand, shellWord, UsageError } from "./lib/command.ts";
import { formatTime, parseTime } from "./lib/time.ts";

/** The history that D1 keeps on the paid plan. */
const HISTORY_MS = 30 * 86_400_000;

const BOOKMARK = /^[0-9a-f-]+$/;
const BOOKMARK_HINT = "It must be a bookmark that npx wrangler d1 time-travel info prints.";
const ROWS = z.array(z.record(z.string(), z.union([z.string(), z.number(), z.null()])));

/** The file of --resume. The marker and the time go into SQL and the bookmark into a URL, so their form is checked. */
const UNFINISHED = z.object({
  target: z.union([
    z.object({ kind: z.literal("production") }),
    z.object({ kind: z.literal("preview"), name: z.string() }),
  ]),
  bookmark: z.string().check(z.regex(BOOKMARK)),
  withKeys: z.boolean(),
  marker: z.string().check(z.regex(/^restoring_\d+$/)),
  saved: z.object({
    atMs: z.int(),
    pets: z.number(),
    highestId: z.string().check(z.regex(/^\d+$/)),
    keys: ROWS,
    replacedSecrets: ROWS,
    changes: ROWS,
  }),
});

const define: Define = (io) =>
  withRemoteOptions(
    newCommand(
      "npm run restore",
      "Restores the database of production or of the previews to an earlier state, at most 30 days ago (7 on Workers Free): pets and idempotency records. Keys and the record of their changes stay as they are, and no id is assigned twice.",
      "--timestamp 2026-11-19T12:00:00Z --remote --dry-run",
      "--resume restoring_1795089600000.json",
    ),
  )
    .addOption(
      new Option("--timestamp <time>", "restore the state of this time, such as 2026-11-19T12:00:00Z")
        .argParser(pastTime)
        .conflicts("bookmark"),
    )
    .option("--bookmark <bookmark>", "restore this state", matching(BOOKMARK, BOOKMARK_HINT))
    .option("--with-keys", "restore names, plans and expiries of keys too, but nothing that has ended")
    .option("--dry-run", "show what would happen")
    .addOption(new Option("--yes", "don't ask").conflicts("dryRun"))
    .addOption(
      new Option("--resume <file>", "finish an interrupted restore").conflicts([
        "timestamp",
        "bookmark",
        "remote",
        "preview",
        "withKeys",
        "dryRun",
      ]),
    )
    .action(async ({ resume, timestamp: atMs, withKeys = false, dryRun, yes, ...options }) => {
      if (resume !== undefined) {
        const unfinished = await readUnfinished(resume);
        const deployed = await openDeployed(unfinished.target);
        io.note(`Finishes the restore of ${nameOf(deployed)} to bookmark ${unfinished.bookmark}.`);
        return run(io, deployed, unfinished, resume);
      }
      if (atMs === undefined && options.bookmark === undefined)
        throw new UsageError("add --timestamp TIME or --bookmark B");
      const target = readTarget(options);
      if (target.kind === "local")
        throw new UsageError(
          "add --remote or --preview NAME: a local database has no history, only copies of its folder (docs/operating.md)",
        );
      // An unfinished restore has not merged its keys: saving the current ones would lose those in its file.
      const file = (await readdir(".")).find((name) => /^restoring_\d+\.json$/.test(name));
      if (file !== undefined)
        throw new UsageError(`an earlier restore is unfinished: run npm run restore -- --resume ${file}`);
      const { deployed, bookmark, saved } = await io.step("Reading the database", async () => {
        const deployed = await openDeployed(target);
        const { name, database, timeTravel } = deployed;
        const advice = `run npm run migrate --${targetOptions(target)}, or remove a migration that fails`;
        if ((await pendingMigrations(database)).length > 0)
          throw new UsageError(`${name} has pending migrations: ${advice}`);
        const bookmark = options.bookmark ?? (await timeTravel.bookmark(atMs));
        return { deployed, bookmark, saved: await saveState(database) };
      });
      const time = atMs === undefined ? "" : ` (${formatTime(atMs)})`;
      const plan = [
        `Restores ${nameOf(deployed)} to bookmark ${bookmark}${time}.`,
        `It has ${saved.pets} pets and ${saved.keys.length} keys now. Ids up to ${saved.highestId} will not be assigned again.`,
        withKeys ? "Keys are restored too; ended keys and secrets stay ended." : "Keys stay as they are.",
      ].join("\n");
      if (dryRun) {
        const line = `--bookmark ${bookmark}${withKeys ? " --with-keys" : ""}${targetOptions(target)}`;
        return io.print(`${plan}\nNothing was changed. To restore: npm run restore -- ${line}`);
      }
      await io.confirm(plan, yes);
      const marker = `restoring_${Date.now()}`;
      await run(io, deployed, { target, bookmark, withKeys, marker }, `${marker}.json`);
    });

async function run(io: Io, deployed: DeployedDatabase, restore: Restore, file: string): Promise<void> {
  const { pets, nextId, migrations } = await restoreDatabase(deployed, restore, file, io);
  if (migrations.length > 0) io.print(`Applied migrations again: ${migrations.join(", ")}.`);
  io.print(`Restored ${nameOf(deployed)}. There are ${pets} pets, and the next id is ${nextId}.`);
  io.note(`For 30 s the service may accept keys and secrets that have ended.
It may return old pages until 30 s after the read replicas have caught up.
An Idempotency-Key of a pet that is gone creates a new pet, with a new id.
Next, look at the keys: npm run keys -- list${targetOptions(restore.target)}`);
}

/** `the database petstore of the account 0123456789abcdef` */
function nameOf({ name, account }: DeployedDatabase): string {
  return `the database ${name} of the account ${account}`;
}

function pastTime(text: string): number {
  const atMs = parseTime(text);
  const nowMs = Date.now();
  if (atMs !== undefined && atMs <= nowMs && atMs >= nowMs - HISTORY_MS) return atMs;
  throw new InvalidArgumentError("It must be a time within the last 30 days, such as 2026-11-19T12:00:00Z.");
}

async function readUnfinished(file: string): Promise<Restore> {
  const content = await readFile(file, "utf8")
    .then(JSON.parse)
    .catch(() => undefined);
  const { data } = UNFINISHED.safeParse(content);
  if (data !== undefined) return data;
  throw new UsageError(`--resume needs the file of an unfinished restore, which ${shellWord(file)} is not`);
}

export default define;
