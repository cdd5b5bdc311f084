// The real bindings behind stubs: until its end, a test can observe, hold or fail each statement and each call, of the Worker and of the
// objects of keys. Leases of other tests' keys are given back meanwhile, so tests should look at those of their own key only.

import { env } from "cloudflare:workers";
import { vi } from "vitest";
import {
  type CallInterceptor,
  type Interceptor,
  type Place,
  stubDatabase,
  stubKeyObjects,
} from "./stub-bindings.ts";

type DatabaseName = "PETS_DB" | "KEYS_DB";

const boundTo = <Binding extends object>(binding: Binding, ...methods: (keyof Binding)[]) =>
  Object.fromEntries(
    methods.map((method) => [method, (binding[method] as () => void).bind(binding)]),
  ) as unknown as Binding;

/** The bindings without spies. */
export const REAL = {
  PETS_DB: boundTo(env.PETS_DB, "prepare", "batch", "withSession"),
  KEYS_DB: boundTo(env.KEYS_DB, "prepare", "batch", "withSession"),
  API_KEYS: boundTo(env.API_KEYS, "getByName"),
};

/** The object of a key, without spies. */
export const objectOf = (keyId: string) => REAL.API_KEYS.getByName(keyId);

/** All statements go through `intercept`, in sessions too, which read from `nearby`. */
export function interceptStatements(name: DatabaseName, intercept: Interceptor, nearby = REAL[name]): void {
  const stub = stubDatabase(REAL[name], intercept, nearby);
  vi.spyOn(env[name], "prepare").mockImplementation(stub.prepare);
  vi.spyOn(env[name], "batch").mockImplementation(stub.batch);
  vi.spyOn(env[name], "withSession").mockImplementation(stub.withSession);
}

/** Gives the replica the table of pets, without pets. */
export async function emptyReplica(): Promise<void> {
  const schema = REAL.PETS_DB.prepare("SELECT sql FROM sqlite_schema WHERE name = 'pets'");
  await env.REPLICA.exec("DROP TABLE IF EXISTS pets");
  await env.REPLICA.prepare(`${await schema.first("sql")}`).run();
}

/** All calls of a key's object go through `intercept`. */
export function interceptCalls(keyId: string, intercept: CallInterceptor): void {
  const { getByName } = stubKeyObjects(REAL.API_KEYS, intercept);
  vi.spyOn(env.API_KEYS, "getByName").mockImplementation((name) =>
    name === keyId ? getByName(name) : objectOf(name),
  );
}

/** Returns an array that gets the method of each call of a key's object from now on. */
export function watchObjects(keyId: string): string[] {
  const calls: string[] = [];
  interceptCalls(keyId, (run, method) => {
    calls.push(method);
    return run();
  });
  return calls;
}

/** Returns an array that gets the place of each statement from now on; with `keyId`, of those about the key. */
export function watchStatements(name: DatabaseName, keyId?: string): Place[] {
  const places: Place[] = [];
  interceptStatements(name, (run, place, parameters) => {
    if (keyId === undefined || parameters.includes(keyId)) places.push(place);
    return run();
  });
  return places;
}

export const watchReads = (keyId: string) => watchStatements("KEYS_DB", keyId);
