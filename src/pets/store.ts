// Pets in D1. SQLite writes their JSON: unlike JavaScript numbers it is exact for 64-bit integers, and a page is one value.
// Parameters are decimal strings for the same reason; INTEGER columns convert them exactly.

import type { ReadResult, ReadSession } from "../d1/replicas.ts";
import { read, write } from "../d1/statements.ts";
import { INT64_MIN } from "../lib/int64.ts";
import { encodeCursor } from "./cursor.ts";
import type { NewPet, PageQuery } from "./schema.ts";

/** A page as the text of a JSON array; `nextCursor` is undefined on the last page. */
export type Page = { petsJson: string; nextCursor: string | undefined };

/** A stored pet: its id in decimal, and its JSON text. */
export type StoredPet = { id: string; petJson: string };

/** The contract's Pet. The merge patch (RFC 7396) removes a status that is null. */
export const PET_JSON = `json_patch('{}', json_object('id', id, 'name', name, 'categoryId', category_id, 'status', status))`;

/** Reads ?2 pets from the id ?1 on, and one row more, which is the next page's first and is removed from the JSON. */
function pageSql(condition: string): string {
  return `
    SELECT
      json_remove(json_group_array(json(pet)), '$[' || ?2 || ']') AS petsJson,
      iif(count(*) > CAST(?2 AS INTEGER), CAST(max(id) AS TEXT), NULL) AS nextId
    FROM (SELECT id, ${PET_JSON} AS pet FROM pets WHERE ${condition} ORDER BY pets.id LIMIT ?2 + 1)`;
}

const SELECT_PAGE = pageSql("id >= ?1");
const SELECT_PAGE_WITH_STATUS = pageSql("id >= ?1 AND status = ?3");
const SELECT_PET = `SELECT ${PET_JSON} AS petJson FROM pets WHERE id = ?1`;
const INSERT_PET = `
  INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3)
  RETURNING CAST(id AS TEXT) AS id, ${PET_JSON} AS petJson`;

/** Reads at most `limit` + 1 rows, at any depth. */
export function selectPage(session: ReadSession, { limit, status, cursor = INT64_MIN }: PageQuery) {
  // Both are text: D1 binds numbers as REAL, and 20.0 is no array index.
  const bounds = [`${cursor}`, `${limit}`];
  return status === undefined
    ? session.prepare(SELECT_PAGE).bind(...bounds)
    : session.prepare(SELECT_PAGE_WITH_STATUS).bind(...bounds, status);
}

export async function findPage(session: ReadSession, query: PageQuery): Promise<Page> {
  type Row = { petsJson: string; nextId: string | null };
  const row = await read(() => selectPage(session, query).first<Row>());
  if (row === null) throw new Error("an aggregate returned no row");
  const { petsJson, nextId } = row;
  return { petsJson, nextCursor: nextId === null ? undefined : encodeCursor(BigInt(nextId)) };
}

/** Reads the JSON text of one pet. */
export async function findPet(session: ReadSession, id: bigint): Promise<ReadResult<string>> {
  const statement = session.prepare(SELECT_PET).bind(`${id}`);
  const { results, meta } = await read(() => statement.all<{ petJson: string }>());
  return { value: results[0]?.petJson, fromPrimary: meta.served_by_primary };
}

/** Stores a pet under a new id. */
export async function insertPet(database: D1Database, pet: NewPet): Promise<StoredPet> {
  const { name, categoryId, status = null } = pet;
  const statement = database.prepare(INSERT_PET).bind(name, `${categoryId}`, status);
  const stored = await write(() => statement.first<StoredPet>());
  if (stored === null) throw new Error("an insertion returned no row");
  return stored;
}
