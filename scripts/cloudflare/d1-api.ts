// D1 over Cloudflare's API, for commands that work on a deployed database: the part of a D1Database that this project's
// stores use, and the database's past.

import type { Ask } from "./account.ts";

interface Query {
  sql: string;
  params: unknown[];
}

/** The database with this id. `ask` is for the account it is in. */
export function d1OverApi(ask: Ask, databaseId: string): D1Database {
  const run = <Row>(body: Query | { batch: Query[] }) =>
    ask<D1Result<Row>[]>(`/d1/database/${databaseId}/query`, body);
  const statement = (query: Query) => ({
    query,
    bind: (...params: unknown[]) => statement({ ...query, params }),
    all: async () => (await run(query))[0],
    run: async () => (await run(query))[0],
    first: async () => (await run(query))[0]?.results[0] ?? null,
  });
  const database = {
    prepare: (sql: string) => statement({ sql, params: [] }),
    batch: (statements: { query: Query }[]) => run({ batch: statements.map(({ query }) => query) }),
  };
  return database as unknown as D1Database;
}

/** What D1 keeps of a database's past. A bookmark names a state of the whole database. */
export interface TimeTravel {
  /** The bookmark of now, or of the latest state at or before `atMs` (Unix time). */
  bookmark(atMs?: number): Promise<string>;
  /** Puts the database back, in place. */
  restore(bookmark: string): Promise<void>;
}

/** The past of the database with this id. */
export function timeTravelOverApi(ask: Ask, databaseId: string): TimeTravel {
  const path = `/d1/database/${databaseId}/time_travel`;
  return {
    bookmark: async (atMs) => {
      const query = atMs === undefined ? "" : `?timestamp=${new Date(atMs).toISOString()}`;
      return (await ask<{ bookmark: string }>(`${path}/bookmark${query}`)).bookmark;
    },
    restore: (bookmark) => ask(`${path}/restore?bookmark=${bookmark}`, undefined, "POST"),
  };
}
