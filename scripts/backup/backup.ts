// Backs up both databases while the service runs, and records that in the keys database, because the file can be on any machine.

import { read } from "../../src/d1/statements.ts";
import { openAccount } from "../cloudflare/account.ts";
import { appliedMigrations, deployedNames, type Target, targetOptions } from "../cloudflare/database.ts";
import { findHighestId, findUnfinished, unfinishedText } from "../cloudflare/time-travel.ts";
import type { Io } from "../lib/io.ts";
import { shownPath } from "../lib/line.ts";
import { withSeparators } from "../lib/report.ts";
import { formatTime } from "../lib/time.ts";
import { type Header, type Rows, type Summary, writeFile } from "./file.ts";
import { patiently } from "./patience.ts";
import { type Databases, layoutOf, readPages, readTables, requireTables, type Tables } from "./tables.ts";

/** The databases of a target, as words of a sentence. */
export async function namesOf(target: Target): Promise<string> {
  if (target.kind === "local") return `the local databases in ${shownPath(target.state)}`;
  return `the databases ${await deployedNames(target)} of the account ${(await openAccount()).label}`;
}

/**
 * Writes a backup of the databases, which begins at `beganAtMs`, into a file that does not exist yet. Throws while a restore is unfinished.
 */
export async function backUp(
  io: Io,
  target: Target,
  databases: Databases,
  path: string,
  beganAtMs: number,
): Promise<Summary> {
  const unfinished = await patiently(() => findUnfinished(databases.keys));
  if (unfinished !== null) throw new Error(unfinishedText(unfinished, targetOptions(target)));
  await requireTables(databases);
  const [highestId, tables, keys, pets] = await Promise.all([
    patiently(() => findHighestId(databases.pets)),
    readTables(databases),
    patiently(() => appliedMigrations(databases.keys)),
    patiently(() => appliedMigrations(databases.pets)),
  ]);
  const layout = layoutOf(tables);
  // What is older than a backup is in it, because nothing was read before.
  const header = {
    createdAt: formatTime(beganAtMs),
    source: await namesOf(target),
    highestId,
    migrations: { keys, pets },
    layout,
  };
  return io.step(`Writing ${path}`, (progress) => {
    const count = counter(progress);
    return writeFile(path, header, rowsOf(databases, tables, header, count));
  });
}

async function* rowsOf(
  databases: Databases,
  tables: Tables,
  { highestId }: Header,
  count: (rows: number) => void,
): AsyncGenerator<Rows> {
  for (const [table, each] of tables)
    for await (const page of readPages(databases[each.contents], table, each, highestId)) {
      yield { table, lines: page.lines, count: page.count };
      count(page.count);
    }
}

/** Tells the progress of work on rows. */
export function counter(progress: (detail: string) => void, total?: number) {
  const beganMs = Date.now();
  let done = 0;
  return (rows: number) => {
    done += rows;
    const rate = Math.round(done / Math.max(0.001, (Date.now() - beganMs) / 1000));
    const of = total === undefined ? "" : ` of ${withSeparators(total)}`;
    progress(`${withSeparators(done)}${of} rows, ${withSeparators(rate)} a second`);
  };
}

/** The numbers of rows, as words of a sentence. */
export function rowsText({ rows }: Pick<Summary, "rows">): string {
  const texts = Object.entries(rows).map(([table, count]) => `${table} ${withSeparators(count)}`);
  return `rows: ${texts.join(", ") || "none"}`;
}

/** A complete backup: when it began (Unix time), and its maker: a login name and a machine. */
export interface LastBackup {
  beganAtMs: number;
  madeBy: string;
}

// The last one to end replaces the others, whatever its time: a wrong clock must not hide the backups after it.
const RECORD = `
  INSERT INTO backups (id, began_at_ms, made_by) VALUES (1, ?1, ?2)
  ON CONFLICT (id) DO UPDATE SET began_at_ms = excluded.began_at_ms, made_by = excluded.made_by`;
const SELECT = "SELECT began_at_ms AS beganAtMs, made_by AS madeBy FROM backups";

/** Throws if the database can't be written, or lacks the table. */
export async function recordBackup(keys: D1Database, { beganAtMs, madeBy }: LastBackup): Promise<void> {
  await patiently(() => keys.prepare(RECORD).bind(beganAtMs, madeBy).run());
}

/** Null if there was none. Throws if the database can't be read, or lacks the table. */
export function findLastBackup(keys: D1Database): Promise<LastBackup | null> {
  return read(() => keys.prepare(SELECT).first<LastBackup>());
}
