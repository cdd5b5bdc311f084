// Pets in D1. SQLite writes their JSON: unlike JavaScript numbers it is exact for 64-bit integers, and a page is one value.

import type { ReadResult, ReadSession } from "../d1/replicas.ts";
import { read, write } from "../d1/statements.ts";
import { INT64_MIN } from "../lib/int64.ts";
import { PET_STORAGE } from "./columns.ts";
import { encodeCursor } from "./cursor.ts";
import type { NewPet, PageQuery } from "./schema.ts";

/** A page as the text of a JSON array; `nextCursor` is undefined on the last page. */
export type Page = { petsJson: string; nextCursor: string | undefined };

/** A stored pet: its id in decimal, and its JSON text. */
export type StoredPet = { id: string; petJson: string };

const { columns, placeholders, parameters, json } = PET_STORAGE;

type Filters = Omit<PageQuery, "limit" | "cursor">;

/** The condition of each filter. Each needs an index, because a page must not read the rows that it leaves out. */
const FILTERS: Record<keyof Filters, (value: string) => string> = { status: (value) => `status = ${value}` };

/** Reads ?2 pets from the id ?1 on, and one row more, which is the next page's first and is removed from the JSON. */
function pageSql(filters: (keyof Filters)[]): string {
  const conditions = ["id >= ?1", ...filters.map((name, index) => FILTERS[name](`?${index + 3}`))];
  return `
    SELECT
      json_remove(json_group_array(json(pet)), '$[' || ?2 || ']') AS petsJson,
      iif(count(*) > CAST(?2 AS INTEGER), CAST(max(id) AS TEXT), NULL) AS nextId
    FROM (SELECT id, ${json} AS pet FROM pets WHERE ${conditions.join(" AND ")} ORDER BY pets.id LIMIT ?2 + 1)`;
}

const SELECT_PET = `SELECT ${json} AS petJson FROM pets WHERE id = ?1`;
const INSERT_PET = `
  INSERT INTO pets (${columns}) VALUES (${placeholders(1)})
  RETURNING CAST(id AS TEXT) AS id, ${json} AS petJson`;

/** Prepares the statement of a page, which reads at most `limit` + 1 rows, at any depth. */
export function selectPage(
  session: ReadSession,
  { limit, cursor = INT64_MIN, ...filters }: PageQuery,
): D1PreparedStatement {
  const names = (Object.keys(filters) as (keyof Filters)[]).filter((name) => filters[name] !== undefined);
  // All are texts: D1 binds numbers as REAL, and 20.0 is no array index.
  const values = [cursor, limit, ...names.map((name) => filters[name])].map(String);
  return session.prepare(pageSql(names)).bind(...values);
}

/** `fromPrimary` as in ReadResult. */
export async function findPage(session: ReadSession, query: PageQuery) {
  type Row = { petsJson: string; nextId: string | null };
  const { results, meta } = await read(() => selectPage(session, query).all<Row>());
  const [row] = results;
  if (row === undefined) throw new Error("an aggregate returned no row");
  const { petsJson, nextId } = row;
  const page: Page = { petsJson, nextCursor: nextId === null ? undefined : encodeCursor(BigInt(nextId)) };
  return { page, fromPrimary: meta.served_by_primary };
}

/** Reads the JSON text of one pet. */
export async function findPet(session: ReadSession, id: bigint): Promise<ReadResult<string>> {
  const statement = session.prepare(SELECT_PET).bind(`${id}`);
  const { results, meta } = await read(() => statement.all<{ petJson: string }>());
  return { value: results[0]?.petJson, fromPrimary: meta.served_by_primary };
}

/** Stores a pet under a new id. */
export async function insertPet(database: D1Database, pet: NewPet): Promise<StoredPet> {
  const statement = database.prepare(INSERT_PET).bind(...parameters(pet));
  const stored = await write(() => statement.first<StoredPet>());
  if (stored === null) throw new Error("an insertion returned no row");
  return stored;
}
