// npx petstore keys find: says whose a key is, and whether it works, also of one that a rotation has replaced. The key is read from
// standard input, because arguments are kept in the shell's history and shown to other users of the machine.

import { problemOf, type SecretProblem } from "../../../src/keys/record.ts";
import { keyIdOf } from "../../../src/keys/secret.ts";
import { sha256 } from "../../../src/lib/sha256.ts";
import { lastFourOf } from "../../../src/operators/changes.ts";
import { findGraceEnd, findKeyById, type ListedKey } from "../../../src/operators/records.ts";
import { withKeys } from "../../keys/context.ts";
import { readSecret } from "../../keys/input.ts";
import { COMMON } from "../../keys/options.ts";
import { keyJson, keyOwner, stateText } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { UsageError } from "../../lib/io.ts";
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
      const found = { key, ending: lastFourOf(secret), graceEndMs, problem };
      if (options.json) return io.printJson(foundJson(found));
      io.print(`${keyOwner(key)}: ${stateText(key)}`);
      io.print(foundText(found));
      const command = graceEndMs === null ? "rotate" : "end-grace";
      if (problem === undefined) io.note(`If it leaked: npx petstore keys ${command} ${id}${where}`);
    });
  },
});

/** `graceEndMs` is null for the current secret. `problem`: why the secret does not work. */
interface Found {
  key: ListedKey;
  /** The last four characters of the secret. */
  ending: string;
  graceEndMs: number | null;
  problem: SecretProblem | undefined;
}

function foundJson({ key, graceEndMs, problem }: Found) {
  const endMs = endOf(key, graceEndMs);
  return {
    ...keyJson(key),
    isCurrent: graceEndMs === null,
    works: problem === undefined,
    problem: problem ?? null,
    endsAt: endMs === null ? null : formatTime(endMs),
  };
}

function foundText({ key, ending, graceEndMs, problem }: Found): string {
  const which = `The key ending in ${ending} ${graceEndMs === null ? "is the current one" : "was replaced by a rotation"}`;
  const endMs = endOf(key, graceEndMs);
  const end = endMs === null ? "it never expires" : `it ends at ${formatTime(endMs)}`;
  const ended = endMs === null ? "" : `: it ended at ${formatTime(endMs)}`;
  if (problem === undefined && key.bannedUntilMs !== null) return `${which}. It works after the ban; ${end}.`;
  if (problem === undefined) return `${which}. It works; ${end}.`;
  if (problem === "suspended") return `${which}. It does not work while the key is suspended; ${end}.`;
  if (problem === "revoked") return `${which}. It does not work: the key is revoked.`;
  return `${which}. It does not work${ended}.`;
}

/** When a secret ends by itself. */
function endOf({ expiresAtMs }: ListedKey, graceEndMs: number | null): number | null {
  const endMs = Math.min(expiresAtMs ?? Number.POSITIVE_INFINITY, graceEndMs ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(endMs) ? endMs : null;
}
