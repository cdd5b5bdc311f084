// D1 over Cloudflare's API, for commands on a deployed database: the part of D1Database that the stores use, and Time Travel.

import type { CallApi } from "./account.ts";

interface Query {
  sql: string;
  params: unknown[];
}

/** The database with this id in the account of `callApi`. */
export function d1OverApi(callApi: CallApi, databaseId: string): D1Database {
  const run = <Row>(body: Query | { batch: Query[] }) =>
    callApi<D1Result<Row>[]>(`/d1/database/${databaseId}/query`, body);
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

/** D1 Time Travel. A bookmark names a state of the whole database. */
export interface TimeTravel {
  /** The bookmark of now, or of the latest state at or before `atMs` (Unix time). */
  bookmark(atMs?: number): Promise<string>;
  /** Restores the database in place. */
  restore(bookmark: string): Promise<void>;
}

export function timeTravelOverApi(callApi: CallApi, databaseId: string): TimeTravel {
  const path = `/d1/database/${databaseId}/time_travel`;
  return {
    bookmark: async (atMs) => {
      const query = atMs === undefined ? "" : `?timestamp=${new Date(atMs).toISOString()}`;
      return (await callApi<{ bookmark: string }>(`${path}/bookmark${query}`)).bookmark;
    },
    restore: (bookmark) => callApi(`${path}/restore?bookmark=${bookmark}`, undefined, "POST"),
  };
}
