// Real bindings behind stubs: a test can observe, hold or fail every call. This file does not import vitest, so that Workers
// in test/e2e can use it.

/** Where a statement runs: at the primary, which has every commit, or at the nearest instance. */
export type Place = "primary" | "nearest";

type Run = () => Promise<unknown>;

/** Handles a statement with its parameters, or a batch without. `run` executes it. */
export type Interceptor = (run: Run, place: Place, parameters: readonly unknown[]) => Promise<unknown>;

/** Handles a call of the object `name`. `run` executes it. */
export type CallInterceptor = (run: Run, method: string, name: string) => Promise<unknown>;

type Instance = Pick<D1Database, "prepare" | "batch">;

/** A database whose statements go through `intercept`. Sessions read from `nearby`. */
export function stubDatabase(primary: D1Database, intercept: Interceptor, nearby = primary): D1Database {
  const withSession = (constraint?: string) =>
    constraint === "first-unconstrained"
      ? stubInstance(nearby.withSession(constraint), "nearest", intercept)
      : stubInstance(primary.withSession(constraint), "primary", intercept);
  return { ...stubInstance(primary, "primary", intercept), withSession } as unknown as D1Database;
}

/** The objects of keys. Their calls go through `intercept`. */
export function stubKeyObjects(objects: Env["API_KEYS"], intercept: CallInterceptor): Env["API_KEYS"] {
  const getByName = (name: string) => {
    const object = objects.getByName(name);
    // On the platform, a stub whose call has failed may fail forever. Here it does.
    let isBroken = false;
    const stub = (method: "acquire" | "identify" | "usage") => {
      const call = object[method] as (...words: unknown[]) => Promise<unknown>;
      return async (...words: unknown[]) => {
        if (isBroken) throw new Error("a call of this stub has failed before");
        return intercept(() => call(...words), method, name).catch((error) => {
          isBroken = true;
          throw error;
        });
      };
    };
    return { acquire: stub("acquire"), identify: stub("identify"), usage: stub("usage") };
  };
  return { getByName } as unknown as Env["API_KEYS"];
}

function stubInstance(instance: Instance, place: Place, intercept: Interceptor): Instance {
  const stub = (statement: D1PreparedStatement, parameters: readonly unknown[] = []) => {
    const execute = (method: "all" | "first" | "raw" | "run") => {
      const call = statement[method].bind(statement) as (...words: unknown[]) => Promise<unknown>;
      return (...words: unknown[]) => intercept(async () => call(...words), place, parameters);
    };
    return {
      statement,
      bind: (...values: unknown[]) => stub(statement.bind(...values), values),
      ...{ all: execute("all"), first: execute("first"), raw: execute("raw"), run: execute("run") },
    };
  };
  const batch = (statements: { statement: D1PreparedStatement }[]) =>
    intercept(async () => instance.batch(statements.map(({ statement }) => statement)), place, []);
  return { prepare: (sql: string) => stub(instance.prepare(sql)), batch } as unknown as Instance;
}
