// A database each of whose executions goes through a function that times it, in sessions and batches too.

type Time = <Result>(work: () => Promise<Result>) => Promise<Result>;
type Method = (...words: unknown[]) => unknown;

const EXECUTING: readonly PropertyKey[] = ["first", "all", "run", "raw", "exec"];
/** They return a statement or a session. */
const MAKING: readonly PropertyKey[] = ["prepare", "bind", "withSession"];

/** The statements without their proxies: a batch gets D1's own objects. */
const originals = new WeakMap<object, object>();

export function timedDatabase(database: D1Database, time: Time): D1Database {
  return timed(database, time);
}

function timed<Target extends object>(target: Target, time: Time): Target {
  const get = (_: Target, name: PropertyKey): unknown => {
    const member: unknown = Reflect.get(target, name);
    if (typeof member !== "function") return member;
    const call: Method = (...words) => Reflect.apply(member, target, words);
    if (MAKING.includes(name)) return (...words: unknown[]) => timed(call(...words) as object, time);
    if (name === "batch")
      return (all: object[]) => time(async () => call(all.map((each) => originals.get(each) ?? each)));
    return EXECUTING.includes(name) ? (...words: unknown[]) => time(async () => call(...words)) : call;
  };
  const proxy = new Proxy(target, { get });
  originals.set(proxy, target);
  return proxy;
}
