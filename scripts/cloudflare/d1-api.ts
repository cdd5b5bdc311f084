// D1 over Cloudflare's API, for commands on a deployed database: the part of D1Database that the stores use, and Time Travel.

import type { CallApi } from "./account.ts";

interface Query {
  sql: string;
  params: unknown[];
}

/** The database with this id in the account of `callApi`. */
export function d1OverApi(callApi: CallApi, databaseId: string): D1Database {
  const query = (body: Query | { batch: Query[] }) =>
    callApi<D1Result[]>(`/d1/database/${databaseId}/query`, body);
  const statement = (each: Query) => {
    const run = async () => (await query(each))[0];
    const first = async () => (await run())?.results[0] ?? null;
    return { each, bind: (...params: unknown[]) => statement({ ...each, params }), all: run, run, first };
  };
  const database = {
    prepare: (sql: string) => statement({ sql, params: [] }),
    batch: (statements: { each: Query }[]) => query({ batch: statements.map(({ each }) => each) }),
  };
  return database as unknown as D1Database;
}

/** D1 Time Travel. A bookmark names a state of the whole database. */
export function timeTravelOverApi(callApi: CallApi, databaseId: string) {
  const path = `/d1/database/${databaseId}/time_travel`;
  return {
    /** The bookmark of now, or of the latest state at or before `atMs` (Unix time). */
    async bookmark(atMs?: number): Promise<string> {
      const query = atMs === undefined ? "" : `?timestamp=${new Date(atMs).toISOString()}`;
      return (await callApi<{ bookmark: string }>(`${path}/bookmark${query}`)).bookmark;
    },
    /** Restores the database in place. */
    restore: (bookmark: string) =>
      callApi<void>(`${path}/restore?bookmark=${encodeURIComponent(bookmark)}`, undefined, "POST"),
  };
}
