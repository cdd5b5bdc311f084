// Bindings that tests can look at, hold back and break: each call meets what the test says. What stands behind them is real.
// Nothing here needs a test runner, so a Worker of its own can have such bindings too.

/** Where a statement is run: at the primary, which has every commit, or at whatever instance is nearest. */
export type Place = "primary" | "nearest";

/** What becomes of a statement that is run: `run` is what the real database does. */
export type Meet = (run: () => Promise<unknown>, place: Place, method: string) => Promise<unknown>;

type Instance = Pick<D1Database, "prepare" | "batch">;

/** The database, each of whose statements meets `meet`. Its sessions have `nearby` behind them. */
export function stubDatabase(primary: D1Database, meet: Meet, nearby = primary): D1Database {
  const withSession = (constraint?: string) =>
    constraint === "first-unconstrained"
      ? stubInstance(nearby.withSession(constraint), "nearest", meet)
      : stubInstance(primary.withSession(constraint), "primary", meet);
  return { ...stubInstance(primary, "primary", meet), withSession } as unknown as D1Database;
}

/** The objects of keys, each of whose calls meets `meet`. */
export function stubLimiters(
  limiters: Env["RATE_LIMITER"],
  meet: (run: () => Promise<unknown>, method: string) => Promise<unknown>,
): Env["RATE_LIMITER"] {
  const getByName = (name: string) => {
    const limiter = limiters.getByName(name);
    const stubbed: Record<string, unknown> = {};
    for (const method of ["acquire", "release", "usage"] as const) {
      const call = limiter[method] as (...words: unknown[]) => Promise<unknown>;
      stubbed[method] = (...words: unknown[]) => meet(() => call(...words), method);
    }
    return stubbed;
  };
  return { getByName } as unknown as Env["RATE_LIMITER"];
}

function stubInstance(instance: Instance, place: Place, meet: Meet): Instance {
  /** What a batch has to be given. */
  const originals = new WeakMap<D1PreparedStatement, D1PreparedStatement>();
  const stub = (statement: D1PreparedStatement): D1PreparedStatement => {
    const stubbed = new Proxy(statement, {
      get(target, name) {
        const method = Reflect.get(target, name).bind(target);
        if (name === "bind") return (...values: unknown[]) => stub(method(...values));
        return (...words: unknown[]) => meet(async () => method(...words), place, String(name));
      },
    });
    originals.set(stubbed, statement);
    return stubbed;
  };
  return {
    prepare: (sql) => stub(instance.prepare(sql)),
    batch: (statements) =>
      meet(
        async () => instance.batch(statements.map((each) => originals.get(each) ?? each)),
        place,
        "batch",
      ) as Promise<never>,
  };
}
