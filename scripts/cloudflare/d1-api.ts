// D1 over Cloudflare's API, for commands on a deployed database, and its Time Travel.

import type { CallApi } from "./account.ts";
import { d1By } from "./d1.ts";

/** The database with this id in the account of `callApi`. */
export function d1OverApi(callApi: CallApi, databaseId: string): D1Database {
  return d1By((statements) => {
    const batch = statements.map(({ sql, params }) => ({ sql, params }));
    return callApi(`/d1/database/${databaseId}/query`, batch.length === 1 ? batch[0] : { batch });
  });
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
