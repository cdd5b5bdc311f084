// ./petstore keys create: creates a key, or the keys of a file, and prints each once.

import type { Access } from "../../../src/keys/key.ts";
import { USAGE_EVERY_MS } from "../../../src/limits/index.ts";
import { createKey, createKeys } from "../../../src/operators/admin.ts";
import { planText } from "../../../src/operators/changes.ts";
import { foldName } from "../../../src/operators/names.ts";
import { type ListedKey, listKeys } from "../../../src/operators/records.ts";
import { waitingForCalls } from "../../cloudflare/account.ts";
import { file } from "../../cloudflare/target.ts";
import { requireNoRestore } from "../../cloudflare/time-travel.ts";
import { type Context, printSecret, warnOfLimits, warnOfName, withKeys } from "../../keys/context.ts";
import { COLUMNS_TEXT, type Line, readKeyFile } from "../../keys/key-file.ts";
import {
  CHANGE,
  expiry,
  keyName,
  LIMITS,
  limitWords,
  NOTE,
  PLAN,
  REF,
  readLimits,
} from "../../keys/options.ts";
import { clipped, counted, keyOwner, SECRETS_HEADER, secretLine, stateText } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { untilInterrupted } from "../../lib/interrupt.ts";
import { type Io, UsageError } from "../../lib/io.ts";
import { petstoreLine } from "../../lib/line.ts";
import { timeOrNull } from "../../lib/report.ts";

/**
 * Keys that are made before the first of them is printed. A larger batch needs fewer calls of Cloudflare's API (80 for 2,000 keys), but a
 * crash hides more keys that exist.
 */
export const BATCH = 25;
/** Names that are looked up at once. A statement's parameter has at most 2 MB. */
const LOOKED_UP = 1_000;

const LIMIT_NAMES = Object.keys(LIMITS) as (keyof typeof LIMITS)[];

export default defineCommand({
  description:
    "Creates a key and prints it. With --from, creates a key for each line of a CSV file and prints name,id,key. A line whose name has a key is skipped, so the same command, with >> FILE, continues after a failure; what differs from that key is said, and the exit code is 1. Names are compared without case, without blanks around them, and in one normal form.",
  options: {
    name: { placeholder: "name", description: "the owner's name", parse: keyName },
    plan: { placeholder: "plan", ...PLAN },
    ...LIMITS,
    readOnly: { description: "the key may only read: GET and HEAD" },
    expires: {
      placeholder: "date",
      description: 'when the key ends: the beginning of a UTC day, a time, or "never" (default)',
      parse: (text: string) => ({ atMs: expiry(text) }),
    },
    ref: REF,
    note: NOTE,
    from: {
      placeholder: "file",
      parse: file,
      description: `a CSV file in UTF-8, with commas, semicolons or tabs between fields, and a header: ${COLUMNS_TEXT}`,
      conflicts: ["name", "plan", ...LIMIT_NAMES, "readOnly", "expires", "ref", "note", "json"],
    },
    ...CHANGE,
  },
  examples: [
    '--name "Jo\'s shop" --plan pro',
    "--name Acme --plan enterprise --per-minute 5000 --per-day 1000000 --expires 2027-12-31",
    "--from customers.csv > keys.csv",
  ],
  async handler(io, options) {
    const { name, plan, readOnly, expires, from, ref = null, note = null } = options;
    if (from !== undefined) {
      const lines = await checkedLines(io, from);
      return waitingForCalls(() =>
        withKeys(io, options, async (context) => {
          await requireNoRestore(context.database, context.where);
          await createAll(context, lines);
        }),
      );
    }
    if (name === undefined || plan === undefined)
      throw new UsageError("add --name NAME and --plan PLAN, or --from FILE");
    const limits = readLimits(plan, options);
    await withKeys(io, options, async (context) => {
      await requireNoRestore(context.database, context.where);
      warnOfLimits(io, limits);
      await warnOfName(context, name);
      const access: Access = readOnly ? "read" : "write";
      const expiresAtMs = expires?.atMs ?? null;
      const newKey = { name, plan, access, expiresAtMs, ref, note, ...(limits && { limits }) };
      const { key, secret } = await createKey(context.database, newKey, context.operator);
      await printSecret(context, options, "Created", key, secret);
    });
  },
});

async function checkedLines(io: Io, path: string): Promise<Line[]> {
  const { lines, problems } = await readKeyFile(path);
  for (const problem of problems) io.report(problem);
  if (problems.length === 0) return lines;
  throw new UsageError(`nothing was created: ${path} has ${counted(problems.length, "problem")}`);
}

/** Creates a key for each name that has none, and prints it. What ends that before the last line is thrown. */
async function createAll(context: Context, lines: Line[]): Promise<void> {
  const { io, database, where } = context;
  const skipped: Skipped[] = [];
  const skip = async (some: Line[]) => {
    const found = await keysNamed(context, some);
    for (const each of found) printSkipped(context, each);
    skipped.push(...found);
    const named = new Set(found.map(({ line }) => line));
    return some.filter((line) => !named.has(line));
  };
  const missing: Line[] = [];
  for (const some of chunks(lines, LOOKED_UP)) missing.push(...(await skip(some)));
  const notShown = new Map<string, string>();
  let count = 0;
  try {
    await untilInterrupted(async (isInterrupted) => {
      if (!io.isAppending) await io.printOnce(SECRETS_HEADER);
      for (const batch of chunks(missing, BATCH)) {
        if (await isInterrupted()) throw new Error("interrupted");
        const created = await createKeys(database, batch, context.operator, { unlessNamed: true });
        count += created.length;
        for (const { key } of created) notShown.set(key.name, key.id);
        for (const { key, secret } of created) {
          await io.printOnce(secretLine(key, secret));
          notShown.delete(key.name);
        }
        // Another command may have been faster.
        if (created.length < batch.length)
          await skip(batch.filter(({ name }) => created.every(({ key }) => key.name !== name)));
      }
    });
  } catch (error) {
    for (const [name, id] of notShown)
      io.report(`not shown: ${id} ("${clipped(name)}"): ${petstoreLine("keys rotate", id, ...where)}`);
    io.note(
      `Created ${counted(count, "key")}; ${missing.length - count} of ${counted(lines.length, "line")} have none yet. To continue, repeat the command with >> FILE instead of > FILE.`,
    );
    throw error;
  }
  io.note(`Created ${counted(count, "key")}. Lines skipped: ${lines.length - count}.`);
  const unused = skipped.filter(({ isUnused }) => isUnused).length;
  if (unused > 0)
    io.note(
      `Never used, by what is recorded up to ${USAGE_EVERY_MS / 60_000} minutes ago: ${counted(unused, "skipped key")}. If no output has one of them, replace it: ${petstoreLine("keys rotate ID", ...where)}`,
    );
  const [change] = skipped.flatMap(({ differences }) => differences.flatMap(({ words }) => [words ?? []]));
  if (change) io.note(`To change the first of them: ${petstoreLine("keys", ...change, ...where)}`);
  const different = skipped.filter(({ differences }) => differences.length > 0).length;
  if (different > 0)
    throw new Error(`lines that differ from their keys, which stay as they are: ${different}`);
}

/** A line whose name has a key. */
interface Skipped {
  line: Line;
  key: ListedKey;
  differences: Difference[];
  isUnused: boolean;
}

async function keysNamed({ database, operator }: Context, lines: Line[]): Promise<Skipped[]> {
  const { keys } = await listKeys(database, operator.nowMs, { names: lines.map(({ name }) => name) });
  const ids = keys.map(({ id }) => id);
  const neverUsed = await listKeys(database, operator.nowMs, { ids, unused: "ever" });
  const unused = new Set(neverUsed.keys.map(({ id }) => id));
  const byName = Map.groupBy(keys, ({ name }) => foldName(name));
  return lines.flatMap((line) => {
    const all = byName.get(foldName(line.name)) ?? [];
    const usable = all.filter(({ revokedAtMs }) => revokedAtMs === null);
    // Of several, that with the fewest differences.
    const [best] = (usable.length > 0 ? usable : all)
      .map((key) => ({ key, differences: differencesOf(line, key) }))
      .sort((a, b) => a.differences.length - b.differences.length);
    return best ? [{ line, ...best, isUnused: usable.length > 0 && unused.has(best.key.id) }] : [];
  });
}

function printSkipped({ io }: Context, { line, key, differences, isUnused }: Skipped): void {
  const state = key.states.includes("active") ? "" : `, ${stateText(key)}`;
  const has = `${keyOwner(key)}${state}${isUnused ? ", never used" : ""}`;
  if (differences.length === 0) io.note(`line ${line.number} is there already: ${has}`);
  for (const { text } of differences) io.report(`line ${line.number} differs from ${has}: ${text}`);
}

/** `words`: the command that ends the difference. */
interface Difference {
  text: string;
  words?: string[];
}

/** What a file can say of a key. The expiry first, because nothing else of an expired key can be changed. */
const saidOf = ({ plan, limits, expiresAtMs, access, ref, note }: Line | ListedKey) => ({
  expires: timeOrNull(expiresAtMs) ?? "never",
  plan: planText(plan, limits),
  access: access ?? "write",
  ref: ref ?? "",
  note: note ?? "",
});

/** How a key differs from what its line says. */
function differencesOf(line: Line, key: ListedKey): Difference[] {
  if (key.revokedAtMs !== null)
    return [{ text: "for good; its name is free for keys create, but a file makes no second key of a name" }];
  const [is, wanted] = [saidOf(key), saidOf(line)];
  return (Object.keys(is) as (keyof typeof is)[]).flatMap((column) => {
    if (!line.says.includes(column) || is[column] === wanted[column]) return [];
    const text = `${column} is "${clipped(is[column])}", in the file "${clipped(wanted[column])}"`;
    const values = column === "plan" ? [line.plan, ...limitWords(line.limits)] : [wanted[column]];
    return [{ text, words: [column.replace("expires", "expire"), key.id, ...values] }];
  });
}

function* chunks<Item>(all: Item[], size: number): Generator<Item[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size);
}
