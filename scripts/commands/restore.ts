// ./petstore restore: restores the pets of a deployment to an earlier state, or both databases from a backup. This file has the
// arguments and the output; time-travel.ts and scripts/backup/restore.ts have the steps.

import { InvalidArgumentError } from "commander";
import { HEADER } from "../../src/http/header-names.ts";
import { namesOf, rowsText } from "../backup/backup.ts";
import { checkBackup, findBegun, newRestore, restoreBackup } from "../backup/restore.ts";
import { waitingForCalls } from "../cloudflare/account.ts";
import { d1InMemory } from "../cloudflare/d1-file.ts";
import {
  CONTENTS,
  type Contents,
  createDatabases,
  mayExist,
  openDatabases,
  openDeployed,
  pendingMigrations,
  type Target,
  targetOptions,
} from "../cloudflare/database.ts";
import { announceTarget, file, readTarget, TARGET_OPTIONS } from "../cloudflare/target.ts";
import {
  begunText,
  findHighestId,
  findUnfinished,
  isFromFile,
  type Place,
  type Restore,
  restorePets,
  unfinishedText,
} from "../cloudflare/time-travel.ts";
import { loginName } from "../keys/options.ts";
import { defineCommand, type OptionValues } from "../lib/command.ts";
import { type Io, UsageError } from "../lib/io.ts";
import { petstoreLine } from "../lib/line.ts";
import { formatTime, parseTime } from "../lib/time.ts";

const OPTIONS = {
  ...TARGET_OPTIONS,
  from: {
    placeholder: "file",
    description: "restore both databases from this file of backup",
    parse: file,
    conflicts: ["timestamp", "bookmark", "resume"],
  },
  only: {
    placeholder: "database",
    description: "with --from: restore only this database, and leave the other as it is",
    choices: CONTENTS,
  },
  timestamp: {
    placeholder: "time",
    description: "restore the state of this time, such as 2026-11-19T12:00:00Z",
    parse: pastTime,
    conflicts: ["bookmark"],
  },
  bookmark: {
    placeholder: "bookmark",
    description: "restore the state that this bookmark of D1 Time Travel names",
  },
  dryRun: {
    description:
      "show what would happen; with --from and without an option that chooses databases, check the file only",
  },
  yes: { description: "don't ask", conflicts: ["dryRun"] },
  resume: {
    description: "finish an interrupted restore, which any machine may have begun",
    conflicts: ["timestamp", "bookmark", "dryRun"],
  },
} as const;

type Options = OptionValues<typeof OPTIONS>;

export default defineCommand({
  description:
    "Restores the pets of production or of the previews, with their idempotency records, to an earlier state, at most 30 days ago (7 on Workers Free). Keys are in another database and stay as they are. With --from, restores pets and keys from a backup, into empty databases, also local ones; the same command continues an interrupted restore. No id is assigned twice.",
  options: OPTIONS,
  examples: [
    "--timestamp 2026-11-19T12:00:00Z --remote --dry-run",
    "--resume --remote",
    "--from petstore.backup --persist-to /tmp/petstore",
  ],
  async handler(io, options) {
    const target = readTarget(io, options);
    return options.from === undefined
      ? restoreTo(io, target, options)
      : restoreFrom(io, target, options.from, options);
  },
});

/** To an earlier state. */
async function restoreTo(
  io: Io,
  target: Target,
  { only, resume, timestamp: atMs, bookmark: given, dryRun, yes }: Options,
): Promise<void> {
  if (only !== undefined) throw new UsageError("--only needs --from FILE");
  if (!resume && atMs === undefined && given === undefined)
    throw new UsageError("add --timestamp TIME or --bookmark B, or --from FILE");
  if (target.kind === "local")
    throw new UsageError(
      "Time Travel is for deployed databases, which --remote or --preview NAME chooses; restore local ones with --from FILE",
    );

  const where = targetOptions(target);
  const requireMigrated = async (contents: Contents, database: D1Database) => {
    if ((await pendingMigrations(database, contents)).length === 0) return;
    const advice = `run ${petstoreLine("migrate", ...where)}, or remove a migration that fails`;
    throw new UsageError(`the database of ${contents} has pending migrations: ${advice}`);
  };
  announceTarget(io, target);
  const { place, unfinished } = await io.step("Reading the databases", async () => {
    const pets = await openDeployed(target, "pets");
    const { database: keys } = await openDeployed(target, "keys");
    await requireMigrated("keys", keys);
    return { place: { target, pets, keys }, unfinished: await findUnfinished(keys) };
  });
  const { database, timeTravel, label } = place.pets;
  if (unfinished !== null && (!resume || isFromFile(unfinished)))
    throw new UsageError(unfinishedText(unfinished, where));
  if (unfinished !== null) {
    const plan = `Finishes the restore of ${label} to bookmark ${unfinished.bookmark}, ${begunText(unfinished)}.`;
    await io.confirm(plan, yes);
    return restoreAndTell(io, place, unfinished);
  }
  if (resume) throw new UsageError(`there is no unfinished restore of ${label}`);
  await requireMigrated("pets", database);
  const bookmark = given ?? (await timeTravel.bookmark(atMs));
  const time = atMs === undefined ? "" : ` (${formatTime(atMs)})`;
  const plan = `Restores ${label} to bookmark ${bookmark}${time}.
Ids up to ${await findHighestId(database)} will not be assigned again. Keys stay as they are.`;
  if (dryRun) {
    const line = petstoreLine("restore", "--bookmark", bookmark, ...where);
    return io.print(`${plan}\nNothing was changed. To restore: ${line}`);
  }
  await io.confirm(plan, yes);
  const began = { beganAtMs: Date.now(), begunBy: loginName(), undoBookmark: null, idsAbove: null };
  await restoreAndTell(io, place, { ...began, bookmark });
}

async function restoreAndTell(io: Io, place: Place, restore: Restore): Promise<void> {
  const migrations = await restorePets(place, restore, io);
  if (migrations.length > 0) io.print(`Applied migrations again: ${migrations.join(", ")}.`);
  io.print(`Restored ${place.pets.label}.`);
  io.note(`The service may return old pages until 30 s after the read replicas have caught up.
An ${HEADER.idempotencyKey} of a pet that is gone creates a new pet, with a new id.`);
}

/** From a file. */
async function restoreFrom(
  io: Io,
  target: Target,
  path: string,
  { only, dryRun, yes, ...selected }: Options,
): Promise<void> {
  const backup = await checkBackup(io, path, only && [only]);
  const { createdAt, source } = backup.header;
  const content = `${path}, a backup of ${source}, begun at ${createdAt} (${rowsText(backup)})`;
  if (dryRun) io.print(`Complete: ${content}.`);
  // The variables that chose the databases of a backup may still be set when it is checked, and those databases are not empty.
  const isSelected = [selected.persistTo, selected.preview, selected.remote].some(Boolean);
  if (dryRun && !isSelected)
    return io.print(
      "No database was read: add --persist-to DIR, --preview NAME or --remote to check one too.",
    );
  announceTarget(io, target);
  const where = targetOptions(target);
  const { place, found } = await io.step("Reading the databases", async () => {
    const names = await namesOf(target);
    const place = only ? `the ${only} of ${names}` : names;
    // Local databases are created only after the question.
    const existing = await openDatabases(target, ...CONTENTS.filter((each) => mayExist(target, each)));
    const databases = Object.assign({ keys: d1InMemory(), pets: d1InMemory() }, existing);
    return { place, found: await findBegun(databases, place, backup, where).finally(existing.close) };
  });
  const restore = found ?? newRestore(backup, loginName(), Date.now());
  const verb = found ? `Continues the restore, ${begunText(found)}, of` : "Restores";
  const ids = restore.idsAbove === null ? "" : `\nThe next id will be above ${restore.idsAbove}.`;
  if (dryRun) return io.print(`${verb} ${place}.${ids}\nNothing was changed.`);
  await io.confirm(`${verb} ${place} from ${content}.${ids}`, yes);
  const databases = await createDatabases(target, ...CONTENTS);
  try {
    // Again: the answer may have taken minutes.
    const current = await findBegun(databases, place, backup, where);
    if (current !== null && current.beganAtMs !== restore.beganAtMs)
      throw new UsageError(
        `the same restore has begun meanwhile, ${begunText(current)}: run the command again, which continues it`,
      );
    const migrations = await waitingForCalls(() => restoreBackup(io, databases, backup, restore));
    if (migrations.length > 0) io.print(`Applied migrations: ${migrations.join(", ")}.`);
  } finally {
    await databases.close();
  }
  io.print(`Restored ${place} (${rowsText(backup)}).`);
  io.note(
    `This is the state of ${createdAt}.${only === "keys" ? "" : " Pets that were added later are gone."}`,
  );
  if (only === "pets") return;
  io.note(`A key that was revoked, suspended, rotated or changed later is as it was then: a revoked key works again. Repeat such changes:
the record of changes, which ${petstoreLine("keys log", ...where)} prints, ends before them. Bans, and the counts of the current windows, are not in a backup.`);
}

function pastTime(text: string): number {
  const atMs = parseTime(text);
  if (atMs !== undefined && atMs <= Date.now()) return atMs;
  throw new InvalidArgumentError("It must be a time in the past, such as 2026-11-19T12:00:00Z.");
}
