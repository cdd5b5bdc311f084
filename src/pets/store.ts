// Pets in D1. All SQL about pets is here. SQLite writes the JSON: it is exact for 64-bit integers, which
// JavaScript numbers are not, and a page crosses the network as one value. Ids go in as decimal strings for
// the same reason; the columns take them exactly.

import { isFromPrimary, type ReadResult, type ReadSession } from "../d1/replicas.ts";
import { read, write } from "../d1/statements.ts";
import { INT64_MIN } from "../lib/int64.ts";
import { encodeCursor } from "./cursor.ts";
import type { NewPet, PageQuery } from "./schema.ts";

/** A page of pets, as the text of a JSON array, and where the next page begins if there is one. */
export interface Page {
  petsJson: string;
  nextCursor: string | undefined;
}

/** A pet as it was stored: its id in decimal, and its JSON text. */
export interface StoredPet {
  id: string;
  petJson: string;
}

/** The contract's Pet. A merge patch onto nothing leaves out what is null (RFC 7396): a status that was not given. */
export const PET_JSON = `json_patch('{}', json_object('id', id, 'name', name, 'categoryId', category_id, 'status', status))`;

/** A page begins at ?1, has ?2 pets, and reads one row more, which is cut off: it only says that there is more. */
function pageSql(condition: string): string {
  return `
    SELECT
      json_remove(json_group_array(json(pet)), '$[' || ?2 || ']') AS pets_json,
      iif(count(*) > CAST(?2 AS INTEGER), CAST(max(id) AS TEXT), NULL) AS next_id
    FROM (SELECT id, ${PET_JSON} AS pet FROM pets WHERE ${condition} ORDER BY pets.id LIMIT ?2 + 1)`;
}

const SELECT_PAGE = pageSql("id >= ?1");
const SELECT_PAGE_WITH_STATUS = pageSql("id >= ?1 AND status = ?3");
const SELECT_PET = `SELECT ${PET_JSON} AS pet_json FROM pets WHERE id = ?1`;
const INSERT_PET = `
  INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3)
  RETURNING CAST(id AS TEXT) AS id, ${PET_JSON} AS pet_json`;

/** The statement that reads a page: at most `limit` + 1 rows, at any depth. */
export function selectPage(
  session: ReadSession,
  { limit, status, cursor = INT64_MIN }: PageQuery,
): D1PreparedStatement {
  // Both are bound as text: D1 binds numbers as REAL, and 20.0 is no index into an array.
  const bounds = [`${cursor}`, `${limit}`];
  return status === undefined
    ? session.prepare(SELECT_PAGE).bind(...bounds)
    : session.prepare(SELECT_PAGE_WITH_STATUS).bind(...bounds, status);
}

/** Reads a page, in the order of the ids. */
export async function findPage(session: ReadSession, query: PageQuery): Promise<Page> {
  const row = await read(() =>
    selectPage(session, query).first<{ pets_json: string; next_id: string | null }>(),
  );
  if (row === null) throw new Error("an aggregate gave no row");
  const nextCursor = row.next_id === null ? undefined : encodeCursor(BigInt(row.next_id));
  return { petsJson: row.pets_json, nextCursor };
}

/** The JSON text of one pet, if there is one with this id. */
export async function findPet(session: ReadSession, id: bigint): Promise<ReadResult<string>> {
  const result = await read(() => session.prepare(SELECT_PET).bind(`${id}`).all<{ pet_json: string }>());
  return { value: result.results[0]?.pet_json, fromPrimary: isFromPrimary(result) };
}

/** Stores a pet under a new id. */
export async function insertPet(database: D1Database, pet: NewPet): Promise<StoredPet> {
  const { name, categoryId, status = null } = pet;
  const row = await write(() =>
    database
      .prepare(INSERT_PET)
      .bind(name, `${categoryId}`, status)
      .first<{ id: string; pet_json: string }>(),
  );
  if (row === null) throw new Error("an insertion gave no row");
  return { id: row.id, petJson: row.pet_json };
}
