// A database that tests can look at, hold back and break: every statement that is run meets what the test says, wherever
// it is run, in a session or not. What stands behind it is real.

import { env } from "cloudflare:workers";
import { vi } from "vitest";
import { type Meet, type Place, stubDatabase as stubDatabaseOf } from "./stub-bindings.ts";

/** The database as it is when nobody spies on it. */
const REAL = {
  prepare: env.DB.prepare.bind(env.DB),
  batch: env.DB.batch.bind(env.DB),
  withSession: env.DB.withSession.bind(env.DB),
} as D1Database;

/** The database, each of whose statements meets `meet`. Its sessions have `nearby` behind them. */
export function stubDatabase(meet: Meet, primary: D1Database = REAL, nearby = primary): D1Database {
  return stubDatabaseOf(primary, meet, nearby);
}

/** The database of the Worker that `fetchWithoutKey` calls: until the end of the test, each of its statements meets `meet`. */
export function meetStatements(meet: Meet): void {
  const stub = stubDatabase(meet);
  vi.spyOn(env.DB, "prepare").mockImplementation(stub.prepare);
  vi.spyOn(env.DB, "batch").mockImplementation(stub.batch);
  vi.spyOn(env.DB, "withSession").mockImplementation(stub.withSession);
}

/** The places at which statements are run from now on, in order. */
export function watchStatements(): Place[] {
  const places: Place[] = [];
  meetStatements((run, place) => {
    places.push(place);
    return run();
  });
  return places;
}
