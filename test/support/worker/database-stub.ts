// A real database behind a stub: a test can observe, hold or fail every statement, in sessions too.

import { env } from "cloudflare:workers";
import { vi } from "vitest";
import { type Interceptor, type Place, stubDatabase as stubDatabaseOf } from "./stub-bindings.ts";

/** The database without spies. */
const REAL = {
  prepare: env.DB.prepare.bind(env.DB),
  batch: env.DB.batch.bind(env.DB),
  withSession: env.DB.withSession.bind(env.DB),
} as D1Database;

/** A database whose statements go through `intercept`. Sessions read from `nearby`. */
export function stubDatabase(
  intercept: Interceptor,
  primary: D1Database = REAL,
  nearby = primary,
): D1Database {
  return stubDatabaseOf(primary, intercept, nearby);
}

/** Until the end of the test, all statements of the Worker that `fetchWithoutKey` calls go through `intercept`. */
export function interceptStatements(intercept: Interceptor): void {
  const stub = stubDatabase(intercept);
  vi.spyOn(env.DB, "prepare").mockImplementation(stub.prepare);
  vi.spyOn(env.DB, "batch").mockImplementation(stub.batch);
  vi.spyOn(env.DB, "withSession").mockImplementation(stub.withSession);
}

/** Returns an array that gets the place of each statement from now on. */
export function watchStatements(): Place[] {
  const places: Place[] = [];
  interceptStatements((run, place) => {
    places.push(place);
    return run();
  });
  return places;
}
