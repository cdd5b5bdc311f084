// Restores both databases from a backup, into empty ones. The unfinished restore is a row of pet_restores that names the backup, so that
// any machine that has the file can finish it. Every step can be repeated.

import { INT64_MAX } from "../../src/lib/int64.ts";
import {
  CONTENTS,
  type Contents,
  migrate,
  migratedDatabase,
  migrationFiles,
} from "../cloudflare/database.ts";
import {
  beginRestore,
  FROM_FILE,
  findUnfinished,
  finishRestore,
  type Restore,
  raiseIds,
  SPARE_IDS,
  unfinishedText,
} from "../cloudflare/time-travel.ts";
import { unlessInterrupted } from "../lib/interrupt.ts";
import { type Io, messageOf, UsageError } from "../lib/io.ts";
import { counter } from "./backup.ts";
import { damaged, type Header, readFile, type Summary } from "./file.ts";
import { patiently } from "./patience.ts";
import {
  type Databases,
  insertRows,
  readTables,
  requireTables,
  selectTables,
  type Tables,
  tryRows,
} from "./tables.ts";

const RESTORES = "keys.pet_restores";
/** May have rows: the history of restores, and usage, which the objects of a running service record. A restore leaves them as they are. */
const SHARED = [RESTORES, "keys.key_usage"];

/** A backup that is complete, and what of it is restored: `rows` has only that. */
type Backup = Summary & { path: string; header: Header; chosen: readonly Contents[] };

/** Reads a whole backup. Throws if it is damaged, if this checkout lacks one of its migrations, or if a row would not fit. */
export async function checkBackup(
  io: Io,
  path: string,
  chosen: readonly Contents[] = CONTENTS,
): Promise<Backup> {
  const { header, rows, sha256 } = await io.step(`Checking ${path}`, (progress) => {
    const count = counter(progress);
    return readFile(path, async (header) => {
      await requireMigrations(path, header);
      const databases = { keys: await migratedDatabase("keys"), pets: await migratedDatabase("pets") };
      const tables = columnsOf(path, header, await readTables(databases));
      return async (label, lines, number) => {
        const table = tables.get(label);
        if (table === undefined) throw damaged(path, `${label} has no rows of its own`);
        await tryRows(databases[table.contents], label, table, lines, header.highestId).catch((error) => {
          throw damaged(path, `a line from ${number} on does not fit into ${label}: ${messageOf(error)}`);
        });
        count(lines.length);
      };
    });
  });
  const ofChosen = Object.entries(rows).filter(([label]) => chosen.some((each) => label.startsWith(each)));
  return { path, header, rows: Object.fromEntries(ofChosen), sha256, chosen };
}

async function requireMigrations(path: string, { migrations }: Header): Promise<void> {
  for (const contents of CONTENTS) {
    const files = await migrationFiles(contents);
    const unknown = migrations[contents].find((file) => !files.includes(file));
    if (unknown !== undefined)
      throw new Error(
        `${path} needs migrations/${contents}/${unknown}, which this checkout does not have: use a newer one`,
      );
  }
}

function bookmarkOf({ sha256, chosen }: Backup): string {
  return `${FROM_FILE}${sha256}:${chosen.join("+")}`;
}

/** The unfinished restore of this backup, if there is one. Throws if the databases are in another restore, or not empty. */
export async function findBegun(
  databases: Databases,
  place: string,
  backup: Backup,
  where: string[],
): Promise<Restore | null> {
  await requireTables(databases);
  const tables = await readTables(databases);
  const unfinished = tables.has(RESTORES) ? await patiently(() => findUnfinished(databases.keys)) : null;
  if (unfinished?.bookmark === bookmarkOf(backup)) return unfinished;
  if (unfinished !== null) throw new UsageError(unfinishedText(unfinished, where));
  for (const [label, { contents, name }] of tables) {
    if (SHARED.includes(label) || !backup.chosen.includes(contents)) continue;
    const row = databases[contents].prepare(`SELECT 1 FROM ${name} LIMIT 1`);
    if ((await patiently(() => row.first())) !== null)
      throw new UsageError(
        `${place} have rows in ${label}: a backup goes only into empty databases, such as those of a new account or of --persist-to DIR`,
      );
  }
  return null;
}

/** A restore that has not begun. */
export function newRestore(backup: Backup, begunBy: string, nowMs: number): Restore {
  const { header, chosen } = backup;
  // Clients got ids since the backup. D1 runs about a thousand statements a second, which is one a millisecond.
  const ageMs = nowMs - Date.parse(header.createdAt);
  const highest = BigInt(header.highestId) + BigInt(Math.max(SPARE_IDS, ageMs));
  const idsAbove = chosen.includes("pets") ? `${highest < INT64_MAX ? highest : INT64_MAX}` : null;
  return { beganAtMs: nowMs, begunBy, bookmark: bookmarkOf(backup), undoBookmark: null, idsAbove };
}

/** The tables and columns of a backup. Newer columns get their defaults. */
function columnsOf(path: string, header: Header, tables: Tables): Tables {
  try {
    return selectTables(tables, header.layout);
  } catch (error) {
    const advice = "restore it with an earlier checkout, and migrate then";
    throw new Error(`${path} does not fit, because ${messageOf(error)}: ${advice}`);
  }
}

/** Restores a backup, or finishes its restore. Returns the migrations that were applied. */
export async function restoreBackup(
  io: Io,
  databases: Databases,
  backup: Backup,
  restore: Restore,
): Promise<string[]> {
  const { path, rows, sha256, chosen } = backup;
  const { idsAbove } = restore;
  const migrations: string[] = [];
  for (const contents of CONTENTS)
    migrations.push(...(await patiently(() => migrate(databases[contents], contents))));
  const tables = columnsOf(path, backup.header, await readTables(databases));
  await patiently(() => beginRestore(databases.keys, restore));
  const write = async () => {
    // Before the pets: a pet that is added meanwhile must not get an id of the backup.
    if (idsAbove !== null) await patiently(() => raiseIds(databases.pets, idsAbove));
    await io.step("Writing rows", async (progress) => {
      const total = Object.values(rows).reduce((sum, each) => sum + each, 0);
      const count = counter(progress, total);
      const read = await readFile(path, async () => async (label, lines) => {
        const table = tables.get(label);
        if (table === undefined || !chosen.includes(table.contents)) return;
        await insertRows(databases[table.contents], table, lines);
        count(lines.length);
      });
      if (read.sha256 !== sha256) throw new Error(`${path} has changed`);
    });
    await patiently(() => finishRestore(databases.keys, restore));
  };
  await unlessInterrupted(write).catch((error) => {
    throw new Error(`${messageOf(error)}; the restore is unfinished: run the same command again`);
  });
  return migrations;
}
