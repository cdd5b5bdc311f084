// npx petstore restore: restores the pets of a deployment to an earlier state. This file has the arguments and the output; time-travel.ts
// has the steps.

import { InvalidArgumentError } from "commander";
import { HEADER } from "../../src/http/header-names.ts";
import { type Contents, openDeployed, pendingMigrations } from "../cloudflare/database.ts";
import { REMOTE_OPTIONS, readTarget, targetOptions } from "../cloudflare/target.ts";
import {
  findHighestId,
  findUnfinished,
  type Place,
  type Restore,
  restorePets,
} from "../cloudflare/time-travel.ts";
import { loginName } from "../keys/options.ts";
import { defineCommand } from "../lib/command.ts";
import { type Io, UsageError } from "../lib/io.ts";
import { formatTime, parseTime } from "../lib/time.ts";

export default defineCommand({
  description:
    "Restores the pets of production or of the previews, with their idempotency records, to an earlier state, at most 30 days ago (7 on Workers Free). Keys are in another database and stay as they are. No id is assigned twice.",
  options: {
    ...REMOTE_OPTIONS,
    timestamp: {
      placeholder: "time",
      description: "restore the state of this time, such as 2026-11-19T12:00:00Z",
      parse: pastTime,
      conflicts: ["bookmark"],
    },
    bookmark: { placeholder: "bookmark", description: "restore this state" },
    dryRun: { description: "show what would happen" },
    yes: { description: "don't ask", conflicts: ["dryRun"] },
    resume: {
      description: "finish an interrupted restore, which any machine may have begun",
      conflicts: ["timestamp", "bookmark", "dryRun"],
    },
  },
  examples: ["--timestamp 2026-11-19T12:00:00Z --remote --dry-run", "--resume --remote"],
  async handler(io, { resume, timestamp: atMs, dryRun, yes, ...options }) {
    const target = readTarget(options);
    const selected = targetOptions(target);
    if (target.kind === "local") throw new UsageError("add --remote or --preview NAME");
    if (!resume && atMs === undefined && options.bookmark === undefined)
      throw new UsageError("add --timestamp TIME or --bookmark B");

    const requireMigrated = async (contents: Contents, database: D1Database) => {
      if ((await pendingMigrations(database, contents)).length === 0) return;
      const advice = `run npx petstore migrate${selected}, or remove a migration that fails`;
      throw new UsageError(`the database of ${contents} has pending migrations: ${advice}`);
    };
    const { place, unfinished } = await io.step("Reading the databases", async () => {
      const pets = await openDeployed(target, "pets");
      const { database: keys } = await openDeployed(target, "keys");
      await requireMigrated("keys", keys);
      return { place: { target, pets, keys }, unfinished: await findUnfinished(keys) };
    });
    const { database, timeTravel, label } = place.pets;

    if (resume) {
      if (unfinished === null) throw new UsageError(`there is no unfinished restore of ${label}`);
      const { bookmark } = unfinished;
      await io.confirm(
        `Finishes the restore of ${label} to bookmark ${bookmark}, ${begun(unfinished)}.`,
        yes,
      );
      return run(io, place, unfinished);
    }
    if (unfinished !== null) {
      const advice = `unless it is running, finish it with npx petstore restore --resume${selected}`;
      throw new UsageError(`a restore of ${label} is unfinished, ${begun(unfinished)}: ${advice}`);
    }
    await requireMigrated("pets", database);
    const bookmark = options.bookmark ?? (await timeTravel.bookmark(atMs));
    const time = atMs === undefined ? "" : ` (${formatTime(atMs)})`;
    const plan = `Restores ${label} to bookmark ${bookmark}${time}.
Ids up to ${await findHighestId(database)} will not be assigned again. Keys stay as they are.`;
    if (dryRun) {
      const line = `--bookmark ${bookmark}${selected}`;
      return io.print(`${plan}\nNothing was changed. To restore: npx petstore restore ${line}`);
    }
    await io.confirm(plan, yes);
    const began = { beganAtMs: Date.now(), begunBy: loginName(), undoBookmark: null, idsAbove: null };
    await run(io, place, { ...began, bookmark });
  },
});

function begun({ begunBy, beganAtMs }: Restore): string {
  return `begun by ${begunBy} at ${formatTime(beganAtMs)}`;
}

async function run(io: Io, place: Place, restore: Restore): Promise<void> {
  const migrations = await restorePets(place, restore, io);
  if (migrations.length > 0) io.print(`Applied migrations again: ${migrations.join(", ")}.`);
  io.print(`Restored ${place.pets.label}.`);
  io.note(`The service may return old pages until 30 s after the read replicas have caught up.
An ${HEADER.idempotencyKey} of a pet that is gone creates a new pet, with a new id.`);
}

function pastTime(text: string): number {
  const atMs = parseTime(text);
  if (atMs !== undefined && atMs <= Date.now()) return atMs;
  throw new InvalidArgumentError("It must be a time in the past, such as 2026-11-19T12:00:00Z.");
}
