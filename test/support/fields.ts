// The fields of values that are objects, arrays and Maps, one in another, as messages are.

/** The paths of the numbers in a value that are none. */
export function noNumbersIn(value: unknown, path = ""): string[] {
  if (typeof value === "number") return Number.isNaN(value) ? [path] : [];
  if (typeof value !== "object" || value === null) return [];
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return entries.flatMap(([name, each]) => noNumbersIn(each, `${path}/${name}`));
}

/** The paths of the fields of a value, such as `decisions/*\/atMs`. */
export function fieldsOf(value: unknown, path: readonly string[] = []): string[][] {
  if (typeof value !== "object" || value === null) return [];
  const isList = Array.isArray(value) || value instanceof Map;
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  if (isList) return entries.slice(0, 1).flatMap(([, each]) => fieldsOf(each, [...path, "*"]));
  return entries.flatMap(([name, each]) => [[...path, name], ...fieldsOf(each, [...path, name])]);
}

/** Records by the names of windows. */
const BY_WINDOW = ["windows", "counts", "limits", "leased", "refusedBy", "busiest", "latest"];

/** Adds to each object in a value a field that no release has, and to each record by windows another window. */
export function addUnknown(value: unknown, field = ""): void {
  if (typeof value !== "object" || value === null) return;
  const values = value instanceof Map ? [...value] : Object.entries(value);
  for (const [name, each] of values) addUnknown(each, Array.isArray(value) ? field : `${name}`);
  if (Array.isArray(value) || value instanceof Map) return;
  const [, last] = values.at(-1) ?? [];
  const isCount = typeof last === "number" && field !== "limits";
  const later = BY_WINDOW.includes(field) ? (isCount ? 0 : structuredClone(last)) : { of: [1] };
  if (later !== undefined) Object.assign(value, { later });
}

/** Deletes the field of a path from a value. */
export function drop(value: unknown, path: readonly string[]): void {
  change(value, path, (object, name) => delete object[name]);
}

/** Makes the number of a path NaN. Returns whether it was a number. */
export function replaceNumber(value: unknown, path: readonly string[]): boolean {
  let isReplaced = false;
  change(value, path, (object, name) => {
    if (typeof object[name] !== "number") return;
    object[name] = Number.NaN;
    isReplaced = true;
  });
  return isReplaced;
}

type Change = (object: Record<string, unknown>, name: string) => void;

function change(value: unknown, [name = "", ...rest]: readonly string[], run: Change): void {
  if (typeof value !== "object" || value === null) return;
  const object = value as Record<string, unknown>;
  if (name === "*")
    for (const each of value instanceof Map ? value.values() : Object.values(value)) change(each, rest, run);
  else if (rest.length === 0) run(object, name);
  else change(object[name], rest, run);
}
