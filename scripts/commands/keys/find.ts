// ./petstore keys find: says whose keys are, and whether they work, also of those that a rotation has replaced. Keys are read from standard
// input, because arguments are kept in the shell's history and shown to other users of the machine.

import { problemOf, type SecretProblem } from "../../../src/keys/key.ts";
import { sha256 } from "../../../src/lib/sha256.ts";
import { lastFourOf } from "../../../src/operators/changes.ts";
import { findGraceEnds, type ListedKey, listKeys } from "../../../src/operators/records.ts";
import { targetOptions } from "../../cloudflare/database.ts";
import { readTarget } from "../../cloudflare/target.ts";
import { type Context, withKeys } from "../../keys/context.ts";
import { type FoundSecret, readSecrets } from "../../keys/input.ts";
import { COMMON } from "../../keys/options.ts";
import { keyJson, keyOwner, stateText } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { failureLine, messageOf, ReportedError } from "../../lib/io.ts";
import { petstoreLine } from "../../lib/line.ts";
import { timeOrNull } from "../../lib/report.ts";
import { formatTime } from "../../lib/time.ts";

export default defineCommand({
  description:
    "says whose a key is, and until when it works. It reads the key from standard input, or asks; a file or a pipe can have several, also within other text. With --json, several are an array",
  options: COMMON,
  examples: ["", "--remote < key.txt"],
  async handler(io, options) {
    const found = await readSecrets(io, targetOptions(readTarget(io, options)));
    await withKeys(io, options, async (context) => {
      const judge = await readJudge(context, found);
      const [only] = found;
      if (only !== undefined && found.length === 1) {
        const verdict = judge(only);
        if (options.json) return io.printJson(verdictJson(verdict));
        for (const line of verdictLines(verdict)) io.print(line);
        const line = lineIfLeaked(context, verdict);
        return line === undefined ? undefined : io.note(`If it leaked: ${line}`);
      }
      const all: object[] = [];
      let failed = 0;
      for (const each of found) {
        try {
          const verdict = judge(each);
          if (options.json) all.push(verdictJson(verdict));
          else for (const line of verdictLines(verdict)) io.print(line);
        } catch (error) {
          failed += 1;
          const problem = `line ${each.line}: ${messageOf(error)}`;
          io.report(failureLine(new Error(problem)));
          all.push({ line: each.line, id: each.id, error: messageOf(error) });
        }
      }
      if (options.json) io.printJson(all);
      if (failed > 0) throw new ReportedError();
    });
  },
});

/** `endMs` is null for a key that never ends, `problem` undefined for one that works. */
interface Verdict {
  key: ListedKey;
  secret: string;
  isCurrent: boolean;
  problem: SecretProblem | undefined;
  endMs: number | null;
}

/** Reads all that is known about some secrets. Returns what judges each: it throws for one that is not known. */
async function readJudge({ database, operator, where }: Context, found: FoundSecret[]) {
  const { nowMs } = operator;
  const ids = [...new Set(found.flatMap(({ secret, id }) => (secret === undefined ? [] : [id])))];
  const { keys } = ids.length === 0 ? { keys: [] } : await listKeys(database, nowMs, { ids });
  const graces = keys.length === 0 ? new Map<string, number>() : await findGraceEnds(database, ids);
  return ({ secret, id }: FoundSecret): Verdict => {
    if (secret === undefined)
      throw new Error(
        `this is not a whole API key, or it is mistyped; its ID would be ${id}: ${petstoreLine("keys show", id, ...where)}`,
      );
    const hash = sha256(secret);
    const key = keys.find((each) => each.id === id);
    if (key === undefined)
      throw new Error(
        `unknown here: no key has the ID ${id}. It may be in another database: see --remote and --preview`,
      );
    const isCurrent = key.hash === hash;
    const graceEndMs = isCurrent ? null : graces.get(hash);
    if (graceEndMs === undefined)
      throw new Error(`unknown: ${keyOwner(key)} never had it, or has replaced it long ago`);
    const record = { ...key, secrets: [{ hash, goodUntilMs: graceEndMs }] };
    // What can't be undone comes before a suspension.
    const problem =
      problemOf({ ...record, suspendedAtMs: null }, hash, nowMs) ?? problemOf(record, hash, nowMs);
    const ends = [key.expiresAtMs, graceEndMs].filter((ms) => ms !== null);
    return { key, secret, isCurrent, problem, endMs: ends.length === 0 ? null : Math.min(...ends) };
  };
}

function verdictJson({ key, isCurrent, problem, endMs }: Verdict) {
  const works = { works: problem === undefined, problem: problem ?? null };
  return { ...keyJson(key), isCurrent, ...works, endsAt: timeOrNull(endMs) };
}

function verdictLines({ key, secret, isCurrent, problem, endMs }: Verdict): string[] {
  const which = isCurrent ? "is the current one" : "was replaced by a rotation";
  return [
    `${keyOwner(key)}: ${stateText(key)}`,
    `The key ending in ${lastFourOf(secret)} ${which}. ${worksText(key, endMs, problem)}.`,
  ];
}

/** The line that ends a key that works. */
function lineIfLeaked({ where }: Context, { key, isCurrent, problem }: Verdict): string | undefined {
  if (problem !== undefined) return undefined;
  return petstoreLine(`keys ${isCurrent ? "rotate" : "end-grace"}`, key.id, ...where);
}

/** Whether a secret works, and when it ends or has ended. `problem`: why it does not work. */
function worksText(key: ListedKey, endMs: number | null, problem: SecretProblem | undefined): string {
  const end = endMs === null ? "it never expires" : `it ends at ${formatTime(endMs)}`;
  if (problem === undefined) return `It works${key.bannedUntilMs === null ? "" : " after the ban"}; ${end}`;
  if (problem === "suspended") return `It does not work while the key is suspended; ${end}`;
  if (problem === "revoked") return "It does not work: the key is revoked";
  return `It does not work${endMs === null ? "" : `: it ended at ${formatTime(endMs)}`}`;
}
