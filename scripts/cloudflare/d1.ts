// The part of D1Database that the stores use, for commands: over Cloudflare's API, or on SQLite.

export interface Statement<Param> {
  sql: string;
  params: Param[];
}

/** A database whose statements `execute` runs: one, or those of a batch, which is a transaction. */
export function d1By<Param>(execute: (statements: Statement<Param>[]) => Promise<D1Result[]>): D1Database {
  const prepare = (sql: string, ...params: Param[]) => {
    const run = async () => (await execute([{ sql, params }]))[0];
    const first = async () => (await run())?.results[0] ?? null;
    return { sql, params, bind: (...given: Param[]) => prepare(sql, ...given), all: run, run, first };
  };
  return { prepare: (sql: string) => prepare(sql), batch: execute } as unknown as D1Database;
}
