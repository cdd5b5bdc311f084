// How each field of a pet is stored. The SQL of pets, its parameters and the hash of a request follow from PET_STORAGE, which has to have
// every field of the schema. An absent field is NULL.

import { stringifyJson } from "../lib/json.ts";
import { sha256 } from "../lib/sha256.ts";
import type { NewPet } from "./schema.ts";

/** A column for values of a type. `json` is SQL for the value as JSON. */
interface Column<Value> {
  name: string;
  /** D1 would bind a number as a double; columns of numbers convert a text exactly. */
  toParameter: (value: Value) => string;
  json: string;
}

export const text = (name: string): Column<string> => ({
  name,
  toParameter: (value) => value,
  json: `json_quote(${name})`,
});

export const int64 = (name: string): Column<bigint> => ({ name, toParameter: String, json: name });

/** For all other values: a TEXT with CHECK (json_valid(…)). */
export const json = (name: string): Column<unknown> => ({ name, toParameter: stringifyJson, json: name });

/** What follows from the columns of a table whose rows have these fields and an id. */
export function storageOf<Fields>(
  columns: {
    [Field in keyof Fields]-?: Column<Exclude<Fields[Field], undefined>>;
  },
) {
  const all = Object.entries<Column<never>>(columns);
  const parameterOf = (fields: Fields, field: string, { toParameter }: Column<never>) => {
    const value = fields[field as keyof Fields];
    return value === undefined ? null : toParameter(value as never);
  };
  return {
    columns: all.map(([, { name }]) => name).join(", "),
    /** Parameters in SQL, from ?`first` on. */
    placeholders: (first: number) => all.map((_, index) => `?${first + index}`).join(", "),
    /** The values for `placeholders`. */
    parameters: (fields: Fields) => all.map(([field, column]) => parameterOf(fields, field, column)),
    /** SQL for a row as a JSON text without absent fields. Integers have all their digits. */
    json: `'{"id":' || id || ${all
      .map(([field, { name, json }]) => `iif(${name} IS NULL, '', ',"${field}":' || ${json})`)
      .join(" || ")} || '}'`,
    /** The SHA-256 of the given fields, whatever their order. So a later field does not change the hash of a request without it. */
    hash: (fields: Fields) => {
      const given = all.map(([field, column]) => [field, parameterOf(fields, field, column)]);
      return sha256(JSON.stringify(given.filter(([, parameter]) => parameter !== null).sort()));
    },
  };
}

export const PET_STORAGE = storageOf<NewPet>({
  name: text("name"),
  categoryId: int64("category_id"),
  status: text("status"),
});
