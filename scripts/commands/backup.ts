// ./petstore backup: copies both databases into a file. scripts/backup/ has the format and the steps.

import { backUp, namesOf, rowsText } from "../backup/backup.ts";
import { requireNew } from "../backup/file.ts";
import { waitingForCalls } from "../cloudflare/account.ts";
import { CONTENTS, NOT_MIGRATED, openDatabases, pendingText } from "../cloudflare/database.ts";
import { announceTarget, file, readTarget, TARGET_OPTIONS } from "../cloudflare/target.ts";
import { defineCommand } from "../lib/command.ts";
import { unlessInterrupted } from "../lib/interrupt.ts";
import { messageOf } from "../lib/io.ts";
import { petstoreLine } from "../lib/line.ts";

export default defineCommand({
  description:
    "Copies both databases into one compressed file, while the service runs: pets, idempotency records, keys, the record of their changes, and their usage. Integers stay exact. restore --from FILE checks such a file, and restores it into empty databases.",
  arguments: [{ name: "file", description: "the new file, such as petstore-2026-11-26.backup", parse: file }],
  options: TARGET_OPTIONS,
  examples: ["petstore.backup --remote", "petstore.backup --persist-to /tmp/petstore"],
  async handler(io, options, path) {
    const target = readTarget(io, options);
    requireNew(path);
    announceTarget(io, target);
    const work = async () => {
      const open = () => openDatabases(target, ...CONTENTS);
      const databases = await io.step("Opening the databases", open);
      const summary = await backUp(io, target, databases, path).finally(databases.close);
      io.print(`Wrote ${path}, a backup of ${await namesOf(target)} (${rowsText(summary)}).`);
    };
    await waitingForCalls(() => unlessInterrupted(work)).catch((cause) => {
      const problem = messageOf(cause);
      const reason = NOT_MIGRATED.test(problem) ? pendingText(target) : problem;
      throw new Error(`${path} was not written: ${reason}`, { cause });
    });
    io.note(`It has customers' data and hashes of keys: keep it private, and outside of Cloudflare.
Next, check it: ${petstoreLine("restore", "--from", path, "--dry-run")}`);
  },
});
