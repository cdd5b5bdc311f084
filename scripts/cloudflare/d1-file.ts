// D1 on a local file, for commands on local databases, also while `wrangler dev` serves from the same file: the part of D1Database
// that the stores use. It needs neither wrangler nor workerd, which take longer to load than a command takes.

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";

/** How long a statement waits for a writer in another process: less than the deadline of a statement. */
const BUSY_MS = 4_500;

/** SQLite's primary result codes that src/d1/statements.ts distinguishes, which D1 adds to its messages. */
const CODES: Record<number, string> = { 1: "ERROR", 5: "BUSY", 13: "FULL", 19: "CONSTRAINT", 20: "MISMATCH" };

/** Opens a local database. Creates one that does not exist. */
export function d1OnFile(path: string): { database: D1Database; close(): void } {
  mkdirSync(dirname(path), { recursive: true });
  const file = new DatabaseSync(path, { timeout: BUSY_MS });
  file.exec("PRAGMA journal_mode = WAL");
  return { database: d1On(file), close: () => file.close() };
}

/** A database in memory, after these statements. */
export function d1InMemory(sql: string): D1Database {
  const memory = new DatabaseSync(":memory:");
  memory.exec(sql);
  return d1On(memory);
}

function d1On(file: DatabaseSync): D1Database {
  // As D1 counts: a page that a deletion has freed is used again.
  const size = file.prepare(
    `SELECT (page_count - freelist_count) * page_size AS bytes
    FROM pragma_page_count, pragma_freelist_count, pragma_page_size`,
  );
  const execute = (sql: string, params: SQLInputValue[]) => {
    try {
      const results = file.prepare(sql).all(...params);
      return { success: true, results, meta: { size_after: size.get()?.bytes } };
    } catch (error) {
      throw withCode(error);
    }
  };
  const statement = (sql: string, ...params: SQLInputValue[]) => {
    const run = async () => execute(sql, params);
    const first = async () => execute(sql, params).results[0] ?? null;
    return {
      sql,
      params,
      bind: (...given: SQLInputValue[]) => statement(sql, ...given),
      all: run,
      run,
      first,
    };
  };
  /** A transaction. */
  const batch = async (statements: ReturnType<typeof statement>[]) => {
    execute("BEGIN IMMEDIATE", []);
    try {
      const results = statements.map(({ sql, params }) => execute(sql, params));
      execute("COMMIT", []);
      return results;
    } catch (error) {
      if (file.isTransaction) file.exec("ROLLBACK");
      throw error;
    }
  };
  return { prepare: (sql: string) => statement(sql), batch } as unknown as D1Database;
}

/** An error of SQLite with its code in the message, as D1 has it. */
function withCode(cause: unknown): unknown {
  if (!(cause instanceof Error && "errcode" in cause)) return cause;
  const code = CODES[Number(cause.errcode) & 0xff] ?? `code ${cause.errcode}`;
  return new Error(`${cause.message}: SQLITE_${code}`, { cause });
}
