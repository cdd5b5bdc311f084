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
  /** The real statements, because `batch` accepts no proxies. */
  const originals = new WeakMap<D1PreparedStatement, D1PreparedStatement>();
  const stub = (statement: D1PreparedStatement, parameters: readonly unknown[] = []): D1PreparedStatement => {
    const stubbed = new Proxy(statement, {
      get(target, name) {
        const method = Reflect.get(target, name).bind(target);
        if (name === "bind") return (...values: unknown[]) => stub(method(...values), values);
        return (...words: unknown[]) => intercept(async () => method(...words), place, parameters);
      },
    });
    originals.set(stubbed, statement);
    return stubbed;
  };
  return {
    prepare: (sql) => stub(instance.prepare(sql)),
    batch: (statements) => {
      const run = async () => instance.batch(statements.map((each) => originals.get(each) ?? each));
      return intercept(run, place, []) as Promise<never>;
    },
  };
}
