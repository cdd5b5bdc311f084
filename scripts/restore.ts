// npm run restore: restores a deployed database to an earlier state. This file has the arguments and the output; time-travel.ts
// has the steps.

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { type DeployedDatabase, openDeployed, pendingMigrations } from "./cloudflare/database.ts";
import { readTarget, targetOptions, withRemoteOptions } from "./cloudflare/target.ts";
import { type Restore, restoreDatabase, saveState } from "./cloudflare/time-travel.ts";
import { type Define, type Io, newCommand, UsageError } from "./lib/command.ts";
import { formatTime, parseTime } from "./lib/time.ts";

/** An unfinished restore, in the project's folder. */
const FILE = "restoring.json";

const define: Define = (io) =>
  withRemoteOptions(
    newCommand(
      "npm run restore",
      "Restores the database of production or of the previews to an earlier state, at most 30 days ago (7 on Workers Free): pets and idempotency records. Keys and the record of their changes stay as they are, and no id is assigned twice.",
      "--timestamp 2026-11-19T12:00:00Z --remote --dry-run",
      "--resume",
    ),
  )
    .addOption(
      new Option("--timestamp <time>", "restore the state of this time, such as 2026-11-19T12:00:00Z")
        .argParser(pastTime)
        .conflicts("bookmark"),
    )
    .option("--bookmark <bookmark>", "restore this state")
    .option("--with-keys", "restore names, plans and expiries of keys too, but nothing that has ended")
    .option("--dry-run", "show what would happen")
    .addOption(new Option("--yes", "don't ask").conflicts("dryRun"))
    .addOption(
      new Option("--resume", `finish the interrupted restore in ${FILE}`).conflicts(
        "timestamp bookmark remote preview withKeys dryRun".split(" "),
      ),
    )
    .action(async ({ resume, timestamp: atMs, withKeys = false, dryRun, yes, ...options }) => {
      const isUnfinished = existsSync(FILE);
      if (resume) {
        if (!isUnfinished) throw new UsageError(`there is no unfinished restore: ${FILE} does not exist`);
        const unfinished = await readUnfinished();
        const deployed = await openDeployed(unfinished.target);
        io.note(`Finishes the restore of ${deployed.label} to bookmark ${unfinished.bookmark}.`);
        return run(io, deployed, unfinished);
      }
      const target = readTarget(options);
      if (target.kind === "local") throw new UsageError("add --remote or --preview NAME");
      if (atMs === undefined && options.bookmark === undefined)
        throw new UsageError("add --timestamp TIME or --bookmark B");
      // An unfinished restore has not merged its keys: saving the current ones would lose those in its file.
      if (isUnfinished)
        throw new UsageError("an earlier restore is unfinished: run npm run restore -- --resume");
      const { deployed, bookmark, saved } = await io.step("Reading the database", async () => {
        const deployed = await openDeployed(target);
        const advice = `run npm run migrate --${targetOptions(target)}, or remove a migration that fails`;
        if ((await pendingMigrations(deployed.database)).length > 0)
          throw new UsageError(`${deployed.label} has pending migrations: ${advice}`);
        const bookmark = options.bookmark ?? (await deployed.timeTravel.bookmark(atMs));
        return { deployed, bookmark, saved: await saveState(deployed.database) };
      });
      const time = atMs === undefined ? "" : ` (${formatTime(atMs)})`;
      const plan = [
        `Restores ${deployed.label} to bookmark ${bookmark}${time}.`,
        `It has ${saved.keys.length} keys now. Ids up to ${saved.highestId} will not be assigned again.`,
        withKeys ? "Keys are restored too; ended keys and secrets stay ended." : "Keys stay as they are.",
      ].join("\n");
      if (dryRun) {
        const line = `--bookmark ${bookmark}${withKeys ? " --with-keys" : ""}${targetOptions(target)}`;
        return io.print(`${plan}\nNothing was changed. To restore: npm run restore -- ${line}`);
      }
      await io.confirm(plan, yes);
      await run(io, deployed, { target, bookmark, withKeys, marker: `restoring_${Date.now()}` });
    });

/** Reads the unfinished restore. Its marker and the columns of its keys become SQL, so they must be names. */
async function readUnfinished(): Promise<Restore> {
  const unfinished: Partial<Restore> | undefined = await readFile(FILE, "utf8")
    .then((text) => JSON.parse(text))
    .catch(() => undefined);
  const names = [unfinished?.marker ?? "", ...(unfinished?.saved?.keys ?? [{ "": 0 }]).flatMap(Object.keys)];
  if (names.every((name) => /^\w+$/.test(name))) return unfinished as Restore;
  throw new UsageError(`${FILE} is not the file of an unfinished restore`);
}

async function run(io: Io, deployed: DeployedDatabase, restore: Restore): Promise<void> {
  const migrations = await restoreDatabase(deployed, restore, FILE, io);
  if (migrations.length > 0) io.print(`Applied migrations again: ${migrations.join(", ")}.`);
  io.print(`Restored ${deployed.label}.`);
  io.note(`For 30 s the service may accept keys and secrets that have ended.
It may return old pages until 30 s after the read replicas have caught up.
An Idempotency-Key of a pet that is gone creates a new pet, with a new id.
Next, look at the keys: npm run keys -- list${targetOptions(restore.target)}`);
}

function pastTime(text: string): number {
  const atMs = parseTime(text);
  if (atMs !== undefined && atMs <= Date.now()) return atMs;
  throw new InvalidArgumentError("It must be a time in the past, such as 2026-11-19T12:00:00Z.");
}

export default define;
