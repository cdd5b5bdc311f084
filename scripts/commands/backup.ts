// ./petstore backup: copies both databases into a file. scripts/backup/ has the format and the steps.

import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { backUp, namesOf, recordBackup, rowsText } from "../backup/backup.ts";
import { requireNew } from "../backup/file.ts";
import { backupName, deleteOlder } from "../backup/folder.ts";
import { waitingForCalls } from "../cloudflare/account.ts";
import { CONTENTS, NOT_MIGRATED, openDatabases, pendingText } from "../cloudflare/database.ts";
import { announceTarget, file, folder, readTarget, TARGET_OPTIONS } from "../cloudflare/target.ts";
import { loginName } from "../keys/options.ts";
import { defineCommand, integer } from "../lib/command.ts";
import { unlessInterrupted } from "../lib/interrupt.ts";
import { messageOf, UsageError } from "../lib/io.ts";
import { petstoreLine } from "../lib/line.ts";

/** More files than anybody keeps. */
const MAX_KEPT = 100_000;

export default defineCommand({
  description:
    "Copies both databases into one compressed file, while the service runs: pets, idempotency records, keys, the record of their changes, and their usage. Integers stay exact. restore --from FILE checks such a file, and restores it into empty databases. status shows the age of the latest backup. --dir is for cron: it prints nothing but warnings and failures. Names there tell production, previews and local databases apart, but not two accounts or two local folders: give each a folder of its own.",
  arguments: [
    {
      name: "file",
      description: "the new file, such as petstore-2026-11-26.backup",
      parse: file,
      isOptional: true,
    },
  ],
  options: {
    dir: {
      placeholder: "dir",
      description:
        "instead of FILE: a folder that exists, for a file named by the time in UTC, such as petstore-2026-11-28T031700Z.backup",
      parse: folder,
    },
    keep: {
      placeholder: "n",
      description:
        "with --dir: once the new file is complete, delete older files with such names, so that N are left, and what backups that were killed a day ago have left (default: delete nothing)",
      parse: integer(1, MAX_KEPT),
    },
    ...TARGET_OPTIONS,
  },
  examples: [
    "--dir /var/backups/petstore --keep 14 --remote",
    "petstore.backup --remote",
    "petstore.backup --persist-to /tmp/petstore",
  ],
  async handler(io, { dir, keep, ...options }, given) {
    if ((given === undefined) === (dir === undefined))
      throw new UsageError("name a new FILE, or a folder with --dir");
    if (keep !== undefined && dir === undefined) throw new UsageError("--keep needs --dir DIR");
    const target = readTarget(io, options);
    const beganAtMs = Date.now();
    const path = dir === undefined ? `${given}` : join(dir, backupName(target, beganAtMs));
    if (dir !== undefined) {
      io.isQuiet = true;
      if (existsSync(path)) throw new Error(`${path} exists: another backup has begun in the same second`);
    }
    requireNew(path);
    announceTarget(io, target);
    const explain = (error: unknown) =>
      NOT_MIGRATED.test(messageOf(error)) ? pendingText(target) : messageOf(error);

    const write = async () => {
      const databases = await io.step("Opening the databases", () => openDatabases(target, ...CONTENTS));
      return backUp(io, target, databases, path, beganAtMs).finally(databases.close);
    };
    const summary = await waitingForCalls(() => unlessInterrupted(write)).catch((cause) => {
      throw new Error(`${path} was not written: ${explain(cause)}`, { cause });
    });
    // The file is complete: nothing that fails from here on makes it worse, and a signal only ends the command.
    if (dir === undefined)
      io.print(`Wrote ${path}, a backup of ${await namesOf(target)} (${rowsText(summary)}).`);
    const record = async () => {
      const { keys, close } = await openDatabases(target, "keys");
      await recordBackup(keys, { beganAtMs, madeBy: `${loginName()} at ${hostname()}` }).finally(close);
    };
    await waitingForCalls(record).catch((error) =>
      io.warn(`${path} is complete, but status will not show it: ${explain(error)}`),
    );
    if (keep !== undefined)
      await deleteOlder(path, keep, Date.now()).catch((cause) => {
        throw new Error(`${path} is complete, but older ones were not deleted: ${messageOf(cause)}`, {
          cause,
        });
      });
    io.note(`It has customers' data and hashes of keys: keep it private, and outside of Cloudflare.
Next, check it: ${petstoreLine("restore", "--from", path, "--dry-run")}`);
  },
});
