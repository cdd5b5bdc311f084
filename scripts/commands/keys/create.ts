// ./petstore keys create: creates a key, or the keys of a file, and prints each once.

import type { Access } from "../../../src/keys/key.ts";
import { WINDOW_NAMES } from "../../../src/keys/plans.ts";
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
import {
  counted,
  keyOwner,
  keyOwners,
  printable,
  SECRETS_HEADER,
  secretLine,
  stateText,
} from "../../keys/text.ts";
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
  const skipped = { unused: 0, different: 0 };
  let example: string | undefined;
  /** Those whose name no key has. Says what the keys of the others are, and how they differ from the file. */
  const withoutNamed = async (some: Line[]) => {
    const { keys } = await listKeys(database, context.operator.nowMs, {
      names: some.map(({ name }) => name),
    });
    const byName = Map.groupBy(keys, ({ name }) => foldName(name));
    const named = some.flatMap((line) => {
      const all = byName.get(foldName(line.name)) ?? [];
      const usable = all.filter(({ revokedAtMs }) => revokedAtMs === null);
      const key = bestMatch(usable, line) ?? all[0];
      return key ? [{ line, key, others: usable.filter((each) => each !== key) }] : [];
    });
    const ids = named.map(({ key }) => key.id);
    const neverUsed = await listKeys(database, context.operator.nowMs, { ids, unused: "ever" });
    const unused = new Set(neverUsed.keys.map(({ id }) => id));
    for (const { line, key, others } of named) {
      const differences = differencesOf(line, key);
      const state = key.states.includes("active") ? "" : `, ${stateText(key)}`;
      const isUnused = unused.has(key.id) && key.revokedAtMs === null;
      const and = others.length === 0 ? "" : `, beside ${keyOwners(others)} of the same name`;
      const has = `${keyOwner(key)}${state}${isUnused ? ", never used" : ""}${and}`;
      for (const { text, change } of differences) {
        io.report(`line ${line.number} differs from ${has}: ${text}`);
        example ??= petstoreLine(...change, ...where);
      }
      if (differences.length === 0) io.note(`line ${line.number} is there already: ${has}`);
      else skipped.different += 1;
      if (isUnused) skipped.unused += 1;
    }
    const found = new Set(named.map(({ line }) => line));
    return some.filter((line) => !found.has(line));
  };
  const missing: Line[] = [];
  for (const some of chunks(lines, LOOKED_UP)) missing.push(...(await withoutNamed(some)));
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
          await withoutNamed(batch.filter(({ name }) => created.every(({ key }) => key.name !== name)));
      }
    });
  } catch (error) {
    for (const [name, id] of notShown)
      io.report(`not shown: ${id} ("${printable(name)}"): ${petstoreLine("keys rotate", id, ...where)}`);
    io.note(
      `Created ${counted(count, "key")}; ${missing.length - count} of ${counted(lines.length, "line")} have none yet. To continue, repeat the command with >> FILE instead of > FILE.`,
    );
    throw error;
  }
  const { unused, different } = skipped;
  const those = count === 0 ? "" : `, which ${count === 1 ? "is" : "are"} shown only once`;
  io.note(`Created ${counted(count, "key")}${those}. Lines skipped: ${lines.length - count}.`);
  if (unused > 0)
    io.note(
      `Never used, by what is recorded up to ${USAGE_EVERY_MS / 60_000} minutes ago: ${counted(unused, "skipped key")}. If no output has one of them, replace it: ${petstoreLine("keys rotate ID", ...where)}; several: ${petstoreLine("keys rotate - --yes", ...where)} < ids.txt >> keys.csv`,
    );
  if (example !== undefined) io.note(`To change the first of them: ${example}`);
  if (different > 0)
    throw new Error(`lines that differ from their keys, which stay as they are: ${different}`);
}

/** Of keys with the name of a line, the one that the line is compared with: that with the fewest differences. */
function bestMatch(keys: ListedKey[], line: Line): ListedKey | undefined {
  const compared = keys.map((key) => ({ key, count: differencesOf(line, key).length }));
  return compared.sort((a, b) => a.count - b.count)[0]?.key;
}

interface Difference {
  text: string;
  /** The command that ends it. */
  change: [command: string, ...words: string[]];
}

/** How a key differs from what its line says. */
function differencesOf(line: Line, key: ListedKey): Difference[] {
  const { name, plan, limits, access, expiresAtMs, says } = line;
  const own = limitWords(limits);
  const end = timeOrNull(expiresAtMs) ?? "never";
  if (key.revokedAtMs !== null) {
    const only = access === "read" ? ["--read-only"] : [];
    const expires = expiresAtMs === null ? [] : ["--expires", end];
    const customer = [...(line.ref ? ["--ref", line.ref] : []), ...(line.note ? ["--note", line.note] : [])];
    const words = ["--name", name, "--plan", plan, ...own, ...only, ...expires, ...customer];
    const text = "for good; its name is free for keys create, but a file makes no second key of a name";
    return [{ text, change: ["keys create", ...words] }];
  }
  const isLimited =
    limits === undefined || WINDOW_NAMES.every((window) => limits[window] === key.limits?.[window]);
  const differences: Difference[] = [];
  // First, because nothing else of an expired key can be changed.
  if (says.includes("expires") && key.expiresAtMs !== expiresAtMs)
    differences.push({
      text: `it expires ${timeOrNull(key.expiresAtMs) ?? "never"}, in the file ${end}`,
      change: ["keys expire", key.id, end],
    });
  if (key.plan !== plan || !isLimited)
    differences.push({
      text: `its plan is ${planText(key.plan, key.limits)}, in the file ${planText(plan, limits)}`,
      change: ["keys plan", key.id, plan, ...own],
    });
  for (const field of ["access", "ref", "note"] as const)
    if (says.includes(field) && key[field] !== line[field])
      differences.push({
        text: `its ${field} is ${shown(key[field])}, in the file ${shown(line[field])}`,
        change: [`keys ${field}`, key.id, line[field] ?? ""],
      });
  return differences;
}

function shown(text: string | null | undefined): string {
  return text ? `"${printable(text)}"` : "empty";
}

function* chunks<Item>(all: Item[], size: number): Generator<Item[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size);
}
