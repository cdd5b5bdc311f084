// npm run restore: restores a deployed database to an earlier state. This file has the arguments and the output; time-travel.ts
// has the steps.

import { readdir, readFile } from "node:fs/promises";
import * as z from "zod/mini";
import {
  type DeployedDatabase,
  openDeployed,
  pendingMigrations,
  type Target,
} from "./cloudflare/database.ts";
import { readTarget, TARGET_OPTIONS, targetOptions } from "./cloudflare/target.ts";
import { type Restore, restoreDatabase, saveState } from "./cloudflare/time-travel.ts";
import { parseTime } from "./keys/arguments.ts";
import { formatTime } from "./keys/text.ts";
import { print, readArguments, runCommand, UsageError } from "./lib/command.ts";

const USAGE = `npm run restore -- (--timestamp TIME | --bookmark B) (--remote | --preview NAME)
                         [--with-keys] (--dry-run | --yes)
npm run restore -- --resume FILE

Restores the database of production or of the previews to a TIME (2026-11-19T12:00:00Z) or a bookmark, at most 30 days ago
(7 on Workers Free). It restores pets and the idempotency records. No id is assigned twice. Keys stay as they are.
--with-keys restores keys too. Keys and secrets that have ended since stay ended; new ones stay valid.
--dry-run shows what would happen and changes nothing; --yes restores.
--resume finishes an interrupted restore.`;

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

/** The history that D1 keeps on the paid plan. */
const HISTORY_MS = 30 * 86_400_000;

const BOOKMARK = /^[0-9a-f-]+$/;
const ROWS = z.array(z.record(z.string(), z.union([z.string(), z.number(), z.null()])));

/** The file of --resume. The marker goes into SQL and the bookmark into a URL, so their form is checked. */
const UNFINISHED = z.object({
  target: z.union([
    z.object({ kind: z.literal("production") }),
    z.object({ kind: z.literal("preview"), name: z.string() }),
  ]),
  bookmark: z.string().check(z.regex(BOOKMARK)),
  withKeys: z.boolean(),
  marker: z.string().check(z.regex(/^restoring_\d+$/)),
  saved: z.object({
    pets: z.number(),
    highestId: z.string().check(z.regex(/^\d+$/)),
    keys: ROWS,
    replacedSecrets: ROWS,
  }),
});

type Values = Omit<ReturnType<typeof readOptions>, "help" | "resume">;

/** Runs the command. Throws what `runCommand` expects. */
export async function restore(args: string[]): Promise<void> {
  const { help, resume, ...values } = readOptions(args);
  if (help) return print(USAGE);
  if (resume !== undefined) {
    const unfinished = await readUnfinished(resume, values);
    return run(await openDeployed(unfinished.target), unfinished, resume);
  }
  if (values["dry-run"] === values.yes) {
    throw new UsageError("add --dry-run to see what would happen, or --yes to restore");
  }
  const atMs = readTime(values);
  const target = readTarget(values);
  if (target.kind === "local") {
    throw new UsageError(
      "add --remote or --preview NAME: a local database has no history, only copies of its folder (docs/operating.md)",
    );
  }
  // An unfinished restore has not merged its keys: saving the current ones would lose those in its file.
  const unfinished = (await readdir(".")).find((name) => /^restoring_\d+\.json$/.test(name));
  if (unfinished !== undefined) {
    throw new UsageError(`an earlier restore is unfinished: run npm run restore -- --resume ${unfinished}`);
  }
  const deployed = await openDeployed(target);
  const planned = await plan(deployed, target, values, atMs);
  if (values.yes) return run(deployed, planned, `${planned.marker}.json`);
  print("Nothing was changed.");
}

/** Prints what the restore will do. */
async function plan(
  { name, database, timeTravel }: DeployedDatabase,
  target: Target,
  values: Values,
  atMs: number | undefined,
): Promise<Restore> {
  if ((await pendingMigrations(database)).length > 0) {
    const update = `npm run migrate --${targetOptions(target)}`;
    throw new UsageError(`${name} has pending migrations: run ${update}, or remove a migration that fails`);
  }
  const bookmark = values.bookmark ?? (await timeTravel.bookmark(atMs));
  const { pets, keys, highestId } = await saveState(database);
  const withKeys = values["with-keys"];
  print(`Restoring ${name} to bookmark ${bookmark}${atMs === undefined ? "" : ` (${formatTime(atMs)})`}.`);
  print(`It has ${pets} pets and ${keys.length} keys. Ids up to ${highestId} will not be assigned again.`);
  print(withKeys ? "Keys are restored too; ended keys and secrets stay ended." : "Keys stay as they are.");
  return { target, bookmark, withKeys, marker: `restoring_${Date.now()}` };
}

async function run(deployed: DeployedDatabase, restore: Restore, file: string): Promise<void> {
  const options = `${restore.withKeys ? " --with-keys" : ""}${targetOptions(restore.target)}`;
  const { pets, nextId, migrations } = await restoreDatabase(deployed, restore, file, (undo) =>
    print(`To undo: npm run restore -- --bookmark ${undo}${options} --yes`),
  );
  if (migrations.length > 0) print(`Applied migrations again: ${migrations.join(", ")}.`);
  print(`Restored. There are ${pets} pets, and the next id is ${nextId}.`);
  print("For 30 s the service may accept keys and secrets that have ended.");
  print("It may return old pages until 30 s after the read replicas have caught up.");
  print("An Idempotency-Key of a pet that is gone creates a new pet, with a new id.");
}

function readTime({ timestamp, bookmark }: Values): number | undefined {
  if ((timestamp === undefined) === (bookmark === undefined)) {
    throw new UsageError("expected either --timestamp TIME or --bookmark B: see npm run restore -- --help");
  }
  if (bookmark !== undefined && !BOOKMARK.test(bookmark)) {
    throw new UsageError("--bookmark must be a bookmark that npx wrangler d1 time-travel info prints");
  }
  if (timestamp === undefined) return undefined;
  const atMs = parseTime(timestamp);
  const nowMs = Date.now();
  if (atMs !== undefined && atMs <= nowMs && atMs >= nowMs - HISTORY_MS) return atMs;
  throw new UsageError("--timestamp must be within the last 30 days, such as 2026-11-19T12:00:00Z");
}

async function readUnfinished(file: string, values: Values): Promise<Restore> {
  if (Object.values(values).some((value) => value)) {
    throw new UsageError("--resume can't be combined with other options: its FILE has them");
  }
  const content = await readFile(file, "utf8")
    .then(JSON.parse)
    .catch(() => undefined);
  const { data } = UNFINISHED.safeParse(content);
  if (data !== undefined) return data;
  throw new UsageError(`--resume needs the file of an unfinished restore, which ${file} is not`);
}

function readOptions(args: string[]) {
  return readArguments("restore", { args, options: OPTIONS }).values;
}

if (import.meta.main) await runCommand("restore", () => restore(process.argv.slice(2)));
