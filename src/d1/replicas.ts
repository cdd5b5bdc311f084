// Reads from D1's replicas, which are near but may lag behind the primary.
//
// A replica has all commits up to some moment. So a row that never changes (the caller decides that) can be read from it; a row
// that it lacks is read from the primary.

import { DeadlineExceeded } from "../lib/deadline.ts";
import { DatabaseUnavailable } from "./statements.ts";

/** The database, or a session of it. */
export type ReadSession = Pick<D1Database, "prepare">;

/** `fromPrimary` is undefined if the database does not say which instance answered; the local one does not. */
export type ReadResult<Value> = { value: Value | undefined; fromPrimary: boolean | undefined };

export function nearest(database: D1Database): ReadSession {
  return database.withSession("first-unconstrained");
}

/** Reads from the nearest instance, and then from the primary if there is no value. */
export async function readNearest<Value>(
  database: D1Database,
  read: (session: ReadSession) => Promise<ReadResult<Value>>,
): Promise<Value | undefined> {
  const near = await read(nearest(database)).catch(ignoreFailure);
  if (near?.value !== undefined || near?.fromPrimary) return near.value;
  return (await read(database)).value;
}

/**
 * Ignores a replica's failure, because the primary is asked next: a replica that lags behind a migration rejects correct
 * statements. After a deadline there is no time for that.
 */
export function ignoreFailure(error: unknown): undefined {
  if (error instanceof DatabaseUnavailable && error.cause instanceof DeadlineExceeded) throw error;
}
