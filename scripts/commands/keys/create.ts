// ./petstore keys create: creates a key, or the keys of a file, and prints each once.

import { createKey, createKeys, findNamed } from "../../../src/operators/admin.ts";
import { waitingForCalls } from "../../cloudflare/account.ts";
import { file } from "../../cloudflare/target.ts";
import { requireNoRestore } from "../../cloudflare/time-travel.ts";
import { type Context, printSecret, warnOfLimits, warnOfName, withKeys } from "../../keys/context.ts";
import { COLUMNS_TEXT, type Line, readKeyFile } from "../../keys/key-file.ts";
import { CHANGE, expiry, keyName, LIMITS, PLAN, readLimits } from "../../keys/options.ts";
import { keyOwner, printable } from "../../keys/text.ts";
import { defineCommand } from "../../lib/command.ts";
import { csvLine } from "../../lib/csv.ts";
import { untilInterrupted } from "../../lib/interrupt.ts";
import { type Io, UsageError } from "../../lib/io.ts";
import { petstoreLine } from "../../lib/line.ts";

/**
 * Keys that are made before the first of them is printed. A larger batch needs fewer calls of Cloudflare's API (80 for 2,000 keys), but a
 * crash hides more keys that exist.
 */
export const BATCH = 25;
/** Names that are looked up at once. A statement's parameter has at most 2 MB. */
const LOOKED_UP = 1_000;

export default defineCommand({
  description:
    "Creates a key and prints it. With --from, creates a key for each line of a CSV file and prints name,id,key. A line whose name has a key is skipped, so the same command, with >> FILE, continues after a failure.",
  options: {
    name: { placeholder: "name", description: "the owner's name", parse: keyName },
    plan: { placeholder: "plan", ...PLAN },
    ...LIMITS,
    expires: {
      placeholder: "date",
      description: "when the key ends: the beginning of a UTC day, or a time",
      parse: (text: string) => expiry(text),
    },
    from: {
      placeholder: "file",
      parse: file,
      description: `a CSV file with a header: ${COLUMNS_TEXT}`,
      conflicts: ["name", "plan", "perMinute", "perDay", "expires", "json"],
    },
    ...CHANGE,
  },
  examples: [
    '--name "Jo\'s shop" --plan pro',
    "--name Acme --plan enterprise --per-minute 5000 --per-day 1000000 --expires 2027-12-31",
    "--from customers.csv > keys.csv",
  ],
  async handler(io, options) {
    const { name, plan, expires = null, from } = options;
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
      const newKey = { name, plan, expiresAtMs: expires, ...(limits && { limits }) };
      const { key, secret } = await createKey(context.database, newKey, context.operator);
      await printSecret(context, options, "Created", key, secret);
    });
  },
});

async function checkedLines(io: Io, path: string): Promise<Line[]> {
  const { lines, problems } = await readKeyFile(path);
  for (const problem of problems) io.report(problem);
  if (problems.length === 0) return lines;
  throw new UsageError(`nothing was created: ${path} has ${problems.length} problems`);
}

/** Creates a key for each name that has none, and prints it. What ends that before the last line is thrown. */
async function createAll(context: Context, lines: Line[]): Promise<void> {
  const { io, database, where } = context;
  /** Those whose name no key has. Names the keys of the others. */
  const withoutNamed = async (some: Line[]) => {
    const named = await findNamed(
      database,
      some.map(({ name }) => name),
    );
    for (const { name, number } of some) {
      const key = named.get(name);
      if (key) io.report(`line ${number} is skipped: there is ${keyOwner(key)}`);
    }
    return some.filter(({ name }) => !named.has(name));
  };
  const missing: Line[] = [];
  for (const some of chunks(lines, LOOKED_UP)) missing.push(...(await withoutNamed(some)));
  const notShown = new Map<string, string>();
  let count = 0;
  try {
    await untilInterrupted(async (isInterrupted) => {
      if (!io.isAppending) await io.printOnce(csvLine(["name", "id", "key"]));
      for (const batch of chunks(missing, BATCH)) {
        if (await isInterrupted()) throw new Error("interrupted");
        const created = await createKeys(database, batch, context.operator, { unlessNamed: true });
        count += created.length;
        for (const { key } of created) notShown.set(key.name, key.id);
        for (const { key, secret } of created) {
          await io.printOnce(csvLine([key.name, key.id, secret]));
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
      `Created ${count} keys; ${missing.length - count} of ${lines.length} lines have none yet. To continue, repeat the command with >> FILE instead of > FILE.`,
    );
    throw error;
  }
  const skipped = lines.length - count;
  io.note(`Created ${count} keys, which are shown only once. Lines skipped: ${skipped}.`);
  if (skipped > 0)
    io.note(
      `If no earlier output has the key of a skipped line, replace it: ${petstoreLine("keys rotate ID", ...where)}`,
    );
}

function* chunks<Item>(all: Item[], size: number): Generator<Item[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size);
}
