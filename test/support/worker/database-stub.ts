// The real databases behind stubs: a test can observe, hold or fail every statement, in sessions too.

import { env } from "cloudflare:workers";
import { vi } from "vitest";
import { type Interceptor, type Place, stubDatabase as stubDatabaseOf } from "./stub-bindings.ts";

export type DatabaseName = "PETS_DB" | "KEYS_DB";

/** The databases without spies. */
const REAL = { PETS_DB: withoutSpies(env.PETS_DB), KEYS_DB: withoutSpies(env.KEYS_DB) };

function withoutSpies(database: D1Database): D1Database {
  return {
    prepare: database.prepare.bind(database),
    batch: database.batch.bind(database),
    withSession: database.withSession.bind(database),
  } as D1Database;
}

/** A database whose statements go through `intercept`. Sessions read from `nearby`. */
export function stubDatabase(name: DatabaseName, intercept: Interceptor, nearby = REAL[name]): D1Database {
  return stubDatabaseOf(REAL[name], intercept, nearby);
}

/**
 * Until the end of the test, all statements of the Worker that `fetchWithoutKey` calls go through `intercept`, and all statements of the
 * objects of keys.
 */
export function interceptStatements(name: DatabaseName, intercept: Interceptor): void {
  const stub = stubDatabase(name, intercept);
  vi.spyOn(env[name], "prepare").mockImplementation(stub.prepare);
  vi.spyOn(env[name], "batch").mockImplementation(stub.batch);
  vi.spyOn(env[name], "withSession").mockImplementation(stub.withSession);
}

/** Returns an array that gets the place of each statement from now on. */
export function watchStatements(name: DatabaseName): Place[] {
  const places: Place[] = [];
  interceptStatements(name, (run, place) => {
    places.push(place);
    return run();
  });
  return places;
}
