// ./petstore keys find: says whose a key is, and whether it works, also of one that a rotation has replaced. The key is read from
// standard input, because arguments are kept in the shell's history and shown to other users of the machine.

import { problemOf, type SecretProblem } from "../../../src/keys/record.ts";
import { keyIdOf } from "../../../src/keys/secret.ts";
import { sha256 } from "../../../src/lib/sha256.ts";
import { lastFourOf } from "../../../src/operators/changes.ts";
import { findGraceEnd, findKeyById, type ListedKey } from "../../../src/operators/records.ts";
import { withKeys } from "../../keys/context.ts";
import { readSecret } from "../../keys/input.ts";
import { COMMON } from "../../keys/options.ts";
import { keyJson, keyOwner, stateText, timeOrNull } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { UsageError } from "../../lib/io.ts";
import { petstoreLine } from "../../lib/line.ts";
import { formatTime } from "../../lib/time.ts";

export default defineCommand({
  description: "says whose a key is, and until when it works. It reads the key from standard input, or asks",
  options: COMMON,
  examples: ["", "--remote < key.txt"],
  async handler(io, options) {
    const secret = await readSecret(io);
    const id = keyIdOf(secret);
    if (id === undefined)
      throw new UsageError("this is not an API key, or not a whole one: its form or its checksum is wrong");
    await withKeys(io, options, async ({ database, operator, where }) => {
      const { nowMs } = operator;
      const hash = sha256(secret);
      const key = await findKeyById(database, id, nowMs);
      if (key === undefined)
        throw new Error(
          `unknown here: no key has the ID ${id}. It may be in another database: see --remote and --preview`,
        );
      const graceEndMs = key.hash === hash ? null : await findGraceEnd(database, id, hash);
      if (graceEndMs === undefined)
        throw new Error(`unknown: ${keyOwner(key)} never had it, or has replaced it long ago`);
      const record = { ...key, secrets: [{ hash, goodUntilMs: graceEndMs }] };
      // What can't be undone comes before a suspension.
      const problem =
        problemOf({ ...record, suspendedAtMs: null }, hash, nowMs) ?? problemOf(record, hash, nowMs);
      const isCurrent = graceEndMs === null;
      const ends = [key.expiresAtMs, graceEndMs].filter((ms) => ms !== null);
      const endMs = ends.length === 0 ? null : Math.min(...ends);
      if (options.json) {
        const works = { works: problem === undefined, problem: problem ?? null };
        return io.printJson({ ...keyJson(key), isCurrent, ...works, endsAt: timeOrNull(endMs) });
      }
      const which = isCurrent ? "is the current one" : "was replaced by a rotation";
      io.print(`${keyOwner(key)}: ${stateText(key)}`);
      io.print(`The key ending in ${lastFourOf(secret)} ${which}. ${worksText(key, endMs, problem)}.`);
      const command = isCurrent ? "rotate" : "end-grace";
      if (problem === undefined) io.note(`If it leaked: ${petstoreLine(`keys ${command}`, id, ...where)}`);
    });
  },
});

/** Whether a secret works, and when it ends or has ended. `problem`: why it does not work. */
function worksText(key: ListedKey, endMs: number | null, problem: SecretProblem | undefined): string {
  const end = endMs === null ? "it never expires" : `it ends at ${formatTime(endMs)}`;
  if (problem === undefined) return `It works${key.bannedUntilMs === null ? "" : " after the ban"}; ${end}`;
  if (problem === "suspended") return `It does not work while the key is suspended; ${end}`;
  if (problem === "revoked") return "It does not work: the key is revoked";
  return `It does not work${endMs === null ? "" : `: it ended at ${formatTime(endMs)}`}`;
}
