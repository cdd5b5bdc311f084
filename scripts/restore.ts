// npm run restore: puts a deployed database back to an earlier state, with what must not go back. This file has the words;
// the steps are in time-travel.ts.

import { readdir, readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import * as z from "zod/mini";
import {
  type DeployedDatabase,
  openDeployed,
  pendingMigrations,
  type Target,
} from "./cloudflare/database.ts";
import { readTarget, TARGET_OPTIONS, targetOptions } from "./cloudflare/target.ts";
import { keep, type Restore, restoreDatabase } from "./cloudflare/time-travel.ts";
import { parseTime } from "./keys/arguments.ts";
import { formatTime } from "./keys/text.ts";
import { print, runCommand, UsageError } from "./lib/command.ts";

const USAGE = `npm run restore -- (--timestamp TIME | --bookmark B) (--remote | --preview NAME)
                         [--with-keys] (--dry-run | --yes)
npm run restore -- --resume FILE

Puts production's database, or that of the previews, back to what it was at a TIME (2026-11-19T12:00:00Z) or bookmark,
at most 30 days ago (7 on the free plan). Pets go back, and the creations that are remembered for Idempotency-Key.
No id is given again. Keys stay as they are now.
--with-keys lets keys go back too. What has ended since stays ended, and what was made since stays.
--dry-run says what would be done, and changes nothing; --yes does it.
--resume goes on with a restore that broke off.`;

const OPTIONS = {
  ...TARGET_OPTIONS,
  timestamp: { type: "string" },
  bookmark: { type: "string" },
  resume: { type: "string" },
  "with-keys": { type: "boolean", default: false },
  "dry-run": { type: "boolean", default: false },
  yes: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
} as const;

/** D1 keeps no more, on any plan. */
const KEPT_MS = 30 * 86_400_000;

const BOOKMARK = /^[0-9a-f-]+$/;
const ROWS = z.array(z.record(z.string(), z.union([z.string(), z.number(), z.null()])));

/** What --resume finds in its file. Mark and bookmark go into SQL and a URL, so they must be what they look like. */
const UNFINISHED = z.object({
  target: z.union([
    z.object({ kind: z.literal("production") }),
    z.object({ kind: z.literal("preview"), name: z.string() }),
  ]),
  bookmark: z.string().check(z.regex(BOOKMARK)),
  withKeys: z.boolean(),
  mark: z.string().check(z.regex(/^restoring_\d+$/)),
  kept: z.object({
    pets: z.number(),
    highestId: z.string().check(z.regex(/^\d+$/)),
    keys: ROWS,
    replacedSecrets: ROWS,
  }),
});

type Values = Omit<ReturnType<typeof readOptions>, "help" | "resume">;

/** Runs the command with these arguments. Throws as `runCommand` wants it. */
export async function restore(words: string[]): Promise<void> {
  const { help, resume, ...values } = readOptions(words);
  if (help) return print(USAGE);
  if (resume !== undefined) {
    const unfinished = await readUnfinished(resume, values);
    return carryOut(await openDeployed(unfinished.target), unfinished, resume);
  }
  if (values["dry-run"] === values.yes) {
    throw new UsageError("say --dry-run to see what would be done, or --yes to have it done");
  }
  const atMs = readTime(values);
  const target = readTarget(values);
  if (target.kind === "local") {
    throw new UsageError(
      "say --remote or --preview NAME: a local database has no past but copies of its folder (docs/operating.md)",
    );
  }
  // The keys of an unfinished restore are not merged yet: to save the current ones would lose what its file holds.
  const unfinished = (await readdir(".")).find((name) => /^restoring_\d+\.json$/.test(name));
  if (unfinished !== undefined) {
    throw new UsageError(`a restore broke off: finish it with npm run restore -- --resume ${unfinished}`);
  }
  const deployed = await openDeployed(target);
  const announced = await announce(deployed, target, values, atMs);
  if (values.yes) return carryOut(deployed, announced, `${announced.mark}.json`);
  print("Nothing was changed: this was a dry run.");
}

/** Says what is going to happen. */
async function announce(
  { name, database, timeTravel }: DeployedDatabase,
  target: Target,
  values: Values,
  atMs: number | undefined,
): Promise<Restore> {
  if ((await pendingMigrations(database)).length > 0) {
    const update = `npm run migrate --${targetOptions(target)}`;
    throw new UsageError(`${name} is not up to date: run ${update}, or take away a migration that fails`);
  }
  const bookmark = values.bookmark ?? (await timeTravel.bookmark(atMs));
  const { pets, keys, highestId } = await keep(database);
  const withKeys = values["with-keys"];
  print(
    `${name} goes back to bookmark ${bookmark}${atMs === undefined ? "" : `, which is ${formatTime(atMs)}`}.`,
  );
  print(`It has ${pets} pets and ${keys.length} keys. No id up to ${highestId} will be given again.`);
  print(withKeys ? "Keys go back too, but what has ended since stays ended." : "Keys stay as they are now.");
  return { target, bookmark, withKeys, mark: `restoring_${Date.now()}` };
}

async function carryOut(deployed: DeployedDatabase, restore: Restore, file: string): Promise<void> {
  const words = `${restore.withKeys ? " --with-keys" : ""}${targetOptions(restore.target)}`;
  const { pets, nextId, migrations } = await restoreDatabase(deployed, restore, file, (undo) =>
    print(`To undo it: npm run restore -- --bookmark ${undo}${words} --yes`),
  );
  if (migrations.length > 0) print(`Applied again: ${migrations.join(", ")}.`);
  print(`Restored: there are ${pets} pets, and the next one gets the id ${nextId}.`);
  print("For 30 s the service may accept a key or secret that has ended.");
  print("Until 30 s after the read replicas have caught up, it may show pages as they were.");
  print("What is gone can be created again with the same Idempotency-Key: it is a new pet, with a new id.");
}

function readTime({ timestamp, bookmark }: Values): number | undefined {
  if ((timestamp === undefined) === (bookmark === undefined)) {
    throw new UsageError("give either --timestamp TIME or --bookmark B: see npm run restore -- --help");
  }
  if (bookmark !== undefined && !BOOKMARK.test(bookmark)) {
    throw new UsageError("--bookmark must be one that npx wrangler d1 time-travel info shows");
  }
  if (timestamp === undefined) return undefined;
  const atMs = parseTime(timestamp);
  const nowMs = Date.now();
  if (atMs !== undefined && atMs <= nowMs && atMs >= nowMs - KEPT_MS) return atMs;
  throw new UsageError("--timestamp must be a time such as 2026-11-19T12:00:00Z, within the last 30 days");
}

async function readUnfinished(file: string, values: Values): Promise<Restore> {
  if (Object.values(values).some((value) => value)) {
    throw new UsageError("--resume takes nothing beside it: all else is in its FILE");
  }
  const content = await readFile(file, "utf8")
    .then(JSON.parse)
    .catch(() => undefined);
  const { data } = UNFINISHED.safeParse(content);
  if (data !== undefined) return data;
  throw new UsageError(`--resume must name the file of a restore that broke off, which ${file} is not`);
}

function readOptions(args: string[]) {
  try {
    return parseArgs({ args, options: OPTIONS }).values;
  } catch (error) {
    const [problem] = `${error instanceof Error ? error.message : error}`.split(/\. |\.?\n/);
    throw new UsageError(`${problem}: see npm run restore -- --help`);
  }
}

if (import.meta.main) await runCommand("restore", () => restore(process.argv.slice(2)));
