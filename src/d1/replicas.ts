// Where a statement is read. D1 has a primary, which has every commit, and replicas, which are near and may lag.
//
// A replica has the commits of some moment, in their order. So what it has is right if it can't have changed since (the caller
// decides that), and what it does not have is read at the primary.

import { DeadlineExceeded } from "../lib/deadline.ts";
import { DatabaseUnavailable } from "./statements.ts";

/** The database, or a session of it. */
export type ReadSession = Pick<D1Database, "prepare">;

/** What was read, if it is there, and whether the primary answered: undefined if the database does not say. */
export interface ReadResult<Value> {
  value: Value | undefined;
  fromPrimary: boolean | undefined;
}

/** A session of the nearest instance. */
export function nearest(database: D1Database): ReadSession {
  return database.withSession("first-unconstrained");
}

/** Reads at the nearest instance, and at the primary if that has no value. So `read` may be called twice. */
export async function readNearest<Value>(
  database: D1Database,
  read: (session: ReadSession) => Promise<ReadResult<Value>>,
): Promise<Value | undefined> {
  const near = await read(nearest(database)).catch(ignoreFailure);
  if (near?.value !== undefined || near?.fromPrimary) return near.value;
  return (await read(database)).value;
}

/**
 * Undefined in place of a failure after which the primary may be asked: a replica that lags behind a migration calls even a
 * correct statement wrong. After a deadline there is no time left.
 */
export function ignoreFailure(error: unknown): undefined {
  if (error instanceof DatabaseUnavailable && error.cause instanceof DeadlineExceeded) throw error;
}

/** Whether the primary has answered. The local database does not say. */
export function isFromPrimary({ meta }: D1Result): boolean | undefined {
  return meta.served_by_primary;
}
