// From where a statement reads. D1 has a primary, which has every commit, and replicas, which are near and may be behind.
//
// A replica has the commits of some moment, in their order. What it has is therefore right if it can't have changed since:
// see whoever reads. What it does not have, the primary is asked for, so nothing that exists is ever missing.

import { DeadlineExceeded } from "../lib/deadline.ts";
import { DatabaseUnavailable } from "./statements.ts";

export const REPLICAS_ENABLED: boolean = true;

/** The database, or a session of it. */
export type Instance = Pick<D1Database, "prepare">;

/** What was read, if it is an answer, and whether that comes from the primary: undefined if the database does not say. */
export interface Reading<Value> {
  value: Value | undefined;
  isCurrent: boolean | undefined;
}

/** The nearest instance. */
export function nearest(database: D1Database): Instance {
  return REPLICAS_ENABLED ? database.withSession("first-unconstrained") : database;
}

/** Reads from the nearest instance, and if that has no answer, from the primary. `readFrom` may be called twice. */
export async function readNearest<Value>(
  database: D1Database,
  readFrom: (instance: Instance) => Promise<Reading<Value>>,
): Promise<Reading<Value>> {
  if (!REPLICAS_ENABLED) return readPrimary(database, readFrom);
  const near = await readFrom(nearest(database)).catch(ignoreFailure);
  return near?.value !== undefined || near?.isCurrent ? near : readPrimary(database, readFrom);
}

/**
 * Undefined in place of a failure after which the primary may be asked: a replica that is behind a migration even calls a
 * statement wrong that is not. After one that took long, nobody has the time.
 */
export function ignoreFailure(error: unknown): undefined {
  if (error instanceof DatabaseUnavailable && error.cause instanceof DeadlineExceeded) throw error;
}

/** Reads from the primary. */
export async function readPrimary<Value>(
  database: D1Database,
  readFrom: (instance: Instance) => Promise<Reading<Value>>,
): Promise<Reading<Value>> {
  return { ...(await readFrom(database)), isCurrent: true };
}

/** Whether the primary has answered. The local database does not say. */
export function isFromPrimary({ meta }: D1Result): boolean | undefined {
  return meta.served_by_primary;
}
