// ./petstore keys find: says whose keys are, and whether they work, also of those that a rotation has replaced. Keys are read from standard
// input, because arguments are kept in the shell's history and shown to other users of the machine.

import { text } from "node:stream/consumers";
import { problemOf, type SecretProblem } from "../../../src/keys/key.ts";
import { ID_PREFIX, keyIdOf } from "../../../src/keys/secret.ts";
import { ID_LENGTH, SECRET_LENGTH, SECRET_PREFIX } from "../../../src/keys/secret-format.ts";
import { sha256 } from "../../../src/lib/sha256.ts";
import { lastFourOf } from "../../../src/operators/changes.ts";
import { findGraceEnds, type ListedKey, listKeys } from "../../../src/operators/records.ts";
import { targetOptions } from "../../cloudflare/database.ts";
import { readTarget } from "../../cloudflare/target.ts";
import { type Context, withKeys } from "../../keys/context.ts";
import { COMMON } from "../../keys/options.ts";
import { keyJson, keyOwner, stateText } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { failureLine, type Io, messageOf, ReportedError, UsageError } from "../../lib/io.ts";
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
      const all: object[] = [];
      for (const each of found)
        try {
          const verdict = judge(each);
          all.push(verdictJson(verdict));
          if (options.json) continue;
          io.print(verdictText(verdict));
          if (found.length === 1) noteLeak(context, verdict);
        } catch (error) {
          if (found.length === 1) throw error;
          const problem = messageOf(error);
          io.report(failureLine(new Error(`line ${each.line}: ${problem}`)));
          all.push({ line: each.line, id: each.id, error: problem });
        }
      if (options.json) io.printJson(found.length === 1 ? all[0] : all);
      if (all.some((each) => "error" in each)) throw new ReportedError();
    });
  },
});

/** What looks like a secret: the ID that it names, and the secret if it is whole and its checksum is right. */
interface FoundSecret {
  line: number;
  id: string;
  secret: string | undefined;
}

/**
 * The secrets on standard input, each once, also within other text, such as a header. A terminal is asked for one, and does not show it.
 * Throws UsageError if there is none. `where`: the options that choose the database.
 */
async function readSecrets(io: Io, where: string[]): Promise<FoundSecret[]> {
  const typed = io.stdin.isTTY
    ? await io.ask("API key (it is not shown): ", { isHidden: true })
    : await text(io.stdin);
  const found = new Map<string, FoundSecret>();
  for (const [index, line] of typed.split("\n").entries())
    for (const [word = "", body = ""] of line.matchAll(LIKE_SECRET)) {
      const id = keyIdOf(word);
      const named = id ?? `${ID_PREFIX}${body.slice(0, ID_LENGTH)}`;
      if (!found.has(word))
        found.set(word, { line: index + 1, id: named, secret: id === undefined ? undefined : word });
    }
  if (found.size > 0) return [...found.values()];
  if (typed.trim() === "") throw new UsageError("standard input is empty");
  const [id] = typed.match(LIKE_ID) ?? [];
  throw new UsageError(
    id === undefined
      ? `this is not an API key, which is ${SECRET_PREFIX} and ${SECRET_LENGTH} letters and digits; if only its last four are known: ${petstoreLine("keys list --search CHARS", ...where)}`
      : `this is the ID of a key, not the key itself: ${petstoreLine("keys show", id, ...where)}`,
  );
}

const LIKE_ID = new RegExp(`\\b${ID_PREFIX}[0-9A-Za-z]{${ID_LENGTH}}\\b`);
/** What ends in a letter or digit, but is an escape in a URL or in JSON. */
const ESCAPE = "%[0-9A-Fa-f]{2}|\\\\[bfnrt]|\\\\u[0-9A-Fa-f]{4}";
/** The beginning of a secret that has its ID, or more. */
const LIKE_SECRET = new RegExp(
  `(?:(?<![0-9A-Za-z])|(?<=${ESCAPE}))${SECRET_PREFIX}([0-9A-Za-z]{${ID_LENGTH},})`,
  "g",
);

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
  const ids = [...new Set(found.map(({ id }) => id))];
  const { keys } = await listKeys(database, nowMs, { ids });
  const graces = await findGraceEnds(database, ids);
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

function verdictText({ key, secret, isCurrent, problem, endMs }: Verdict): string {
  const which = isCurrent ? "is the current one" : "was replaced by a rotation";
  return `${keyOwner(key)}: ${stateText(key)}
The key ending in ${lastFourOf(secret)} ${which}. ${worksText(key, endMs, problem)}.`;
}

/** Names the command that ends a key that works. */
function noteLeak({ io, where }: Context, { key, isCurrent, problem }: Verdict): void {
  const line = petstoreLine(`keys ${isCurrent ? "rotate" : "end-grace"}`, key.id, ...where);
  if (problem === undefined) io.note(`If it leaked: ${line}`);
}

/** Whether a secret works, and when it ends or has ended. `problem`: why it does not work. */
function worksText(key: ListedKey, endMs: number | null, problem: SecretProblem | undefined): string {
  const end = endMs === null ? "it never expires" : `it ends at ${formatTime(endMs)}`;
  if (problem === undefined) return `It works${key.bannedUntilMs === null ? "" : " after the ban"}; ${end}`;
  if (problem === "suspended") return `It does not work while the key is suspended; ${end}`;
  if (problem === "revoked") return "It does not work: the key is revoked";
  return `It does not work${endMs === null ? "" : `: it ended at ${formatTime(endMs)}`}`;
}
