// D1 on a local file, for commands on local databases, also while `wrangler dev` serves from the same file, and how SQLite splits a
// migration. It needs neither wrangler nor workerd, which take longer to load than a command takes.

import { existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { DatabaseUnavailable } from "../../src/d1/statements.ts";
import { messageOf, UsageError } from "../lib/io.ts";
import { petstoreLine, shownPath } from "../lib/line.ts";
import { d1By, type Statement } from "./d1.ts";

/** How long a statement waits for a writer in another process: less than the deadline of a statement. */
const BUSY_MS = 4_500;

/** SQLite's primary result codes that src/d1/statements.ts distinguishes, which D1 adds to its messages, and those of damage. */
const CODES: Record<number, string> = {
  ...{ 1: "ERROR", 5: "BUSY", 13: "FULL", 19: "CONSTRAINT", 20: "MISMATCH" },
  ...{ 11: "CORRUPT", 26: "NOTADB" },
};
const DAMAGED = /SQLITE_(CORRUPT|NOTADB)/;
/** A statement that changes nothing. One that may is taken for one that does. */
const READS = /^\s*(SELECT|WITH)\b(?![\s\S]*\b(INSERT|UPDATE|DELETE|REPLACE)\b)/i;

/** The file of a local database is damaged. */
export class DatabaseDamaged extends DatabaseUnavailable {
  constructor(contents: string, path: string, reason: string) {
    super(reason, false);
    const restore = petstoreLine("restore --from FILE --persist-to DIR");
    this.message = `the database of ${contents} is damaged, in ${shownPath(path)} (${reason}): restore a backup into another folder, with ${restore}`;
  }
}

/** Node's own way of making parents never ends where no folder can be made, as in /proc. */
function makeFolder(path: string): void {
  if (existsSync(path)) return;
  makeFolder(dirname(path));
  try {
    mkdirSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") throw new UsageError(`no folder can be made in ${dirname(path)}`);
    // Another command makes it too, or this user may not see that it exists.
    if (code !== "EEXIST") throw error;
  }
}

/** Opens a local database. One that does not exist is created, with its folder. */
export function d1OnFile(path: string, contents: string): { database: D1Database; close(): void } {
  const explained = explain(contents, path);
  makeFolder(dirname(path));
  try {
    const file = new DatabaseSync(path, { timeout: BUSY_MS });
    file.exec("PRAGMA journal_mode = WAL");
    return { database: d1On(file, explained), close: () => file.close() };
  } catch (cause) {
    const error = explained(cause);
    if (error instanceof DatabaseDamaged) throw error;
    throw new Error(`the database of ${contents} can't be opened: ${messageOf(error)}`, { cause });
  }
}

/** Makes an error of SQLite on a local database what commands say. */
function explain(contents: string, path: string): (cause: unknown) => unknown {
  return (cause) => {
    const error = withCode(cause);
    const reason = messageOf(error);
    return DAMAGED.test(reason) ? new DatabaseDamaged(contents, path, reason) : error;
  };
}

/** A database in memory, after these statements. */
export function d1InMemory(sql = ""): D1Database {
  const memory = new DatabaseSync(":memory:");
  memory.exec(sql);
  return d1On(memory, withCode);
}

/**
 * Returns a function that splits a migration into its statements, without wrangler's splitter. SQLite itself finds where each ends, for
 * which it has to know the tables: call it for all migrations in their order. It throws SQLite's error on a wrong statement.
 */
export function statementSplitter(): (sql: string) => string[] {
  // A migration may defer the checks of foreign keys to its end, which is not here.
  const memory = new DatabaseSync(":memory:", { enableForeignKeyConstraints: false });
  return (sql) => {
    const statements: string[] = [];
    const skipped = /^(\s|;|--.*|\/\*[\s\S]*?(\*\/|$))*/;
    for (let rest = sql.replace(skipped, ""); rest !== ""; rest = rest.replace(skipped, "")) {
      // The text of the first statement: SQLite ignores what follows.
      const { sourceSQL } = memory.prepare(rest);
      memory.exec(sourceSQL);
      statements.push(sourceSQL);
      rest = rest.slice(sourceSQL.length);
    }
    return statements;
  };
}

/** `explained` makes an error of SQLite what D1 would throw. */
function d1On(file: DatabaseSync, explained: (cause: unknown) => unknown): D1Database {
  // As D1 counts: a page that a deletion has freed is used again.
  const size = file.prepare(
    `SELECT (page_count - freelist_count) * page_size AS bytes
    FROM pragma_page_count, pragma_freelist_count, pragma_page_size`,
  );
  const run = ({ sql, params }: Statement<SQLInputValue>) => {
    const results = file.prepare(sql).all(...params);
    return { success: true, results, meta: { size_after: size.get()?.bytes } };
  };
  return d1By<SQLInputValue>(async (statements) => {
    const isBatch = statements.length > 1;
    try {
      // A batch that only reads does not wait for a writer.
      if (isBatch) file.exec(statements.every(({ sql }) => READS.test(sql)) ? "BEGIN" : "BEGIN IMMEDIATE");
      const results = statements.map(run);
      if (isBatch) file.exec("COMMIT");
      return results as unknown as D1Result[];
    } catch (error) {
      if (isBatch && file.isTransaction) file.exec("ROLLBACK");
      throw explained(error);
    }
  });
}

/** An error of SQLite with its code in the message, as D1 has it. */
function withCode(cause: unknown): unknown {
  if (!(cause instanceof Error && "errcode" in cause)) return cause;
  const code = CODES[Number(cause.errcode) & 0xff] ?? `code ${cause.errcode}`;
  return new Error(`${cause.message}: SQLITE_${code}`, { cause });
}
