// Reads values that another release of this code may have written. What is absent gets its default, what is unknown is ignored, and what has
// another type than its field is refused. A field of a type compiles only with a default, or as one without which the whole is absent.

/** Is told of a value that has a wrong type. It throws, or the value counts as absent. */
export type Refuse = (problem: string) => undefined;

/** Returns a value of its type, or undefined if it is absent. `path` names it in problems. */
export type Reader<Value> = (value: unknown, path: string, refuse: Refuse) => Value;

export const refuseAll: Refuse = (problem) => {
  throw new TypeError(problem);
};

const reader =
  <Value>(what: string, is: (value: unknown) => boolean): Reader<Value | undefined> =>
  (value, path, refuse) => {
    if (value === undefined || is(value)) return value as Value;
    const isPrimitive = ["number", "string", "boolean"].includes(typeof value);
    return refuse(`${path} is no ${what}: ${isPrimitive ? value : tagOf(value)}`);
  };

/** `Object` for what is neither a primitive value nor an object of another kind, such as an array or a Map. */
const tagOf = (value: unknown) => Object.prototype.toString.call(value).slice("[object ".length, -1);

export const NUMBER = reader<number>("finite number", Number.isFinite);
export const WHOLE = reader<number>(
  "whole number from 0 on",
  (value) => Number.isSafeInteger(value) && (value as number) >= 0,
);
/** A part of a whole. */
export const PART = reader<number>(
  "number from 0 to 1",
  (value) => typeof value === "number" && value >= 0 && value <= 1,
);
/** May be Number.POSITIVE_INFINITY. */
export const TIME = reader<number>("time", (value) => typeof value === "number" && value > -1 / 0);
export const TEXT = reader<string>("string", (value) => typeof value === "string");
/** A UTC day, such as 2026-11-22. */
export const DATE = reader<string>(
  "date",
  (value) => /^\d{4}-\d\d-\d\d$/.test(`${value}`) && Date.parse(`${value}`) >= 0,
);
export const ANYTHING: Reader<unknown> = (value) => value;
export const FLAG = reader<boolean>("boolean", (value) => typeof value === "boolean");
export const OBJECT = reader<Record<string, unknown>>("object", (value) => tagOf(value) === "Object");
const LIST = reader<unknown[]>("array", Array.isArray);
const MAP = reader<Map<string, unknown>>("Map", (value) => value instanceof Map);

/** A value with a default. */
export const or =
  <Value>(read: Reader<Value | undefined>, otherwise: Value): Reader<Value> =>
  (...from) => {
    const given = read(...from);
    return given === undefined ? otherwise : given;
  };

/** A value that may be absent, although its fields have defaults. */
export const optional =
  <Value>(read: Reader<Value>): Reader<Value | undefined> =>
  (value, ...where) =>
    value === undefined ? undefined : read(value, ...where);

export const nullable =
  <Value>(read: Reader<Value>): Reader<Value | null> =>
  (value, ...where) =>
    value === null ? null : read(value, ...where);

type Readers<Value, Field extends keyof Value, Absent = never> = {
  [Each in Field]-?: Reader<Value[Each] | Absent>;
};

/** An object whose fields all have a default, also if it is absent itself. */
export function fields<Value extends object>(readers: Readers<Value, keyof Value>): Reader<Value> {
  const all = Object.entries<Reader<unknown>>(readers);
  return (value, path, refuse) => {
    const given = OBJECT(value, path, refuse) ?? {};
    const read = all.map(([name, each]) => [name, each(given[name], `${path}.${name}`, refuse)] as const);
    return Object.fromEntries(read.filter(([, each]) => each !== undefined)) as Value;
  };
}

/** An object that is absent if one of the fields `needed` is. */
export function whole<Value extends object, Needed extends keyof Value = keyof Value>(
  needed: Readers<Value, Needed, undefined>,
  others: Readers<Value, Exclude<keyof Value, Needed>>,
): Reader<Value | undefined> {
  const read = fields<Value>({ ...needed, ...others } as never);
  return (...from) => {
    const given = read(...from);
    return Object.keys(needed).every((name) => name in given) ? given : undefined;
  };
}

/** A list that is absent if one of its values is. */
export const every =
  <Value>(read: Reader<Value | undefined>): Reader<readonly Value[] | undefined> =>
  (value, path, refuse) => {
    const all = LIST(value, path, refuse)?.map((each) => read(each, path, refuse));
    return all?.every((each) => each !== undefined) ? all : undefined;
  };

/** A list, without the values that are absent. */
export const list =
  <Value>(read: Reader<Value | undefined>): Reader<readonly Value[]> =>
  (value, path, refuse) =>
    (LIST(value, path, refuse) ?? [])
      .map((each) => read(each, path, refuse))
      .filter((each) => each !== undefined);

/** An object by names that the reader need not know, without the values that are absent, and without names that every object has. */
export const named =
  <Value>(read: Reader<Value | undefined>): Reader<Readonly<Record<string, Value>>> =>
  (value, path, refuse) => {
    const all = Object.entries(OBJECT(value, path, refuse) ?? {});
    const given = all.map(([name, each]) => [name, read(each, `${path}.${name}`, refuse)] as const);
    const own = given.filter(([name, each]) => each !== undefined && !(name in Object.prototype));
    return Object.fromEntries(own) as Record<string, Value>;
  };

/** The same, but absent if one of its values is, or if it has none. */
export const allNamed =
  <Value>(read: Reader<Value | undefined>): Reader<Readonly<Record<string, Value>> | undefined> =>
  (value, path, refuse) => {
    const given = OBJECT(value, path, refuse);
    const all = named(read)(given, path, refuse);
    return given !== undefined &&
      Object.keys(all).length > 0 &&
      Object.keys(all).length === Object.keys(given).length
      ? all
      : undefined;
  };

/** A Map by names, without the values that are absent. */
export const byName =
  <Value>(read: Reader<Value | undefined>): Reader<ReadonlyMap<string, Value>> =>
  (value, path, refuse) => {
    const all = new Map<string, Value>();
    for (const [name, each] of MAP(value, path, refuse) ?? []) {
      const given = read(each, path, refuse);
      if (given !== undefined) all.set(name, given);
    }
    return all;
  };
