// Local databases that an earlier version has made. Until the first release, migrations may be replaced, and then a database that has
// them already can't be migrated. It is set aside under another name, and a new one begins.

import { existsSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { explain } from "./d1-file.ts";
import { CONTENTS, type Contents, databaseFile } from "./database.ts";

const COLUMNS = `
  SELECT tables.name AS "table", columns.name AS "column", columns.type, columns."notnull", columns.pk
  FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'
  ORDER BY tables.name, columns.cid`;

/** Sets aside the local databases whose tables are not those of this version's migrations. Returns where they are now. */
export function setAsideEarlier(state: string): { contents: Contents; path: string }[] {
  return CONTENTS.flatMap((contents) => {
    const file = databaseFile(state, contents);
    if (!existsSync(file) || !isEarlier(file, contents)) return [];
    const path = `${file}.${new Date().toISOString().replaceAll(":", "")}`;
    // SQLite has merged its write-ahead log into the file, unless a service that still runs uses it.
    for (const ending of ["", "-wal", "-shm"])
      if (existsSync(file + ending)) renameSync(file + ending, path + ending);
    return [{ contents, path }];
  });
}

function isEarlier(file: string, contents: Contents): boolean {
  const database = new DatabaseSync(file);
  try {
    const hasMigrations = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'd1_migrations'").get();
    const applied = hasMigrations ? database.prepare("SELECT name FROM d1_migrations ORDER BY id").all() : [];
    const files = applied.map(({ name }) => join("migrations", contents, `${name}`));
    // A later version's migrations are not in this checkout.
    if (!files.every((each) => existsSync(each))) return true;
    const columns = new Set(database.prepare(COLUMNS).all().map(rowText));
    return !columnsAfter(files).every((column) => columns.has(column));
  } catch (error) {
    throw explain(contents, file)(error);
  } finally {
    database.close();
  }
}

/** The columns of all tables after some migrations. */
function columnsAfter(files: string[]): string[] {
  const database = new DatabaseSync(":memory:");
  for (const file of files) database.exec(readFileSync(file, "utf8"));
  const columns = database.prepare(COLUMNS).all().map(rowText);
  database.close();
  return columns;
}

const rowText = (row: object) => JSON.stringify(row);
