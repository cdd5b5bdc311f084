// Idempotency-Key (draft-ietf-httpapi-idempotency-key-header), with records in D1. The pet and its record are written by one
// batch, which is one transaction: of two concurrent requests, the second finds the record of the first, and repeats its response.
// A record has the SHA-256 of the key, because a client may send a secret there by mistake.

import { deleteInSteps } from "../d1/delete-in-steps.ts";
import { writeIdempotent } from "../d1/statements.ts";
import { ApiError } from "../http/errors.ts";
import { MESSAGES } from "../http/messages.ts";
import { sha256 } from "../lib/sha256.ts";
import { PET_STORAGE } from "./columns.ts";
import type { IfPetsNeverChange } from "./immutable.ts";
import type { NewPet } from "./schema.ts";
import type { StoredPet } from "./store.ts";

export const MAX_KEY_LENGTH = 255;

/** Bare, or a structured-field string (RFC 9651, section 3.3.3), whose only escapes are `\"` and `\\`. */
export const IDEMPOTENCY_KEY = new RegExp(
  String.raw`^(?:([!#-~][!-~]{0,${MAX_KEY_LENGTH - 1}})|"((?:[!#-[\]-~]|\\["\\]){1,${MAX_KEY_LENGTH}})")$`,
);

/** The idempotency key in a header. Throws `invalid_request`. */
export function parseIdempotencyKey(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  // workerd keeps surrounding blanks (RFC 9110, section 5.5). `trim` alone would also remove U+FEFF.
  const value = /^[\t -~]*$/.test(header) ? header.trim() : header;
  const [, bare, quoted] = value.match(IDEMPOTENCY_KEY) ?? [];
  const key = bare ?? quoted?.replace(/\\(.)/g, "$1");
  if (key !== undefined) return key;
  throw new ApiError("invalid_request", MESSAGES.invalid_request.idempotencyKey(MAX_KEY_LENGTH));
}

/** How long a client may retry with the same key. */
export const RETENTION_MS = 24 * 60 * 60_000;

/** Longer, because the clocks of isolates differ, and because a statement may run half a minute after its request arrived. */
export const ROW_RETENTION_MS = RETENTION_MS + 5 * 60_000;

const { columns, placeholders, parameters, json, hash } = PET_STORAGE;

// In all but the last, ?1 is the id of the API key and ?2 the hash of the idempotency key.
const RECORD = "FROM creations WHERE key_id = ?1 AND idempotency_hash = unhex(?2)";
const RECORD_EXISTS = `EXISTS (SELECT 1 ${RECORD})`;
const DELETE_EXPIRED = `DELETE ${RECORD} AND created_at_ms <= ?3`;
const INSERT_PET = `INSERT INTO pets (${columns}) SELECT ${placeholders(3)} WHERE NOT ${RECORD_EXISTS}`;
const INSERT_RECORD = `
  INSERT INTO creations (key_id, idempotency_hash, request_hash, pet_id, pet_json, created_at_ms)
  SELECT ?1, unhex(?2), unhex(?3), id, ${json}, ?4 FROM pets WHERE id = last_insert_rowid() AND NOT ${RECORD_EXISTS}`;
const SELECT_RECORD = `
  SELECT request_hash = unhex(?3) AS isSamePet, created_at_ms = ?4 AS isOfNow, CAST(pet_id AS TEXT) AS id, pet_json AS petJson
  ${RECORD}`;
const DELETE_ALL_EXPIRED = `
  DELETE FROM creations WHERE (key_id, idempotency_hash) IN
  (SELECT key_id, idempotency_hash FROM creations WHERE created_at_ms <= ?1 ORDER BY created_at_ms LIMIT ?2)`;

/** `isReplayed` if an earlier request has created the pet. */
type StoredOnce = IfPetsNeverChange<StoredPet> & { isReplayed: boolean };

/**
 * Stores a pet under a new id, or returns the pet that the idempotency key has already created. Throws `idempotency_key_reused`
 * if that is another pet. `nowMs` (Unix time) is when the request arrived.
 */
export async function insertPetOnce(
  database: D1Database,
  pet: NewPet,
  { keyId, idempotencyKey }: { keyId: string; idempotencyKey: string },
  nowMs: number,
): Promise<StoredOnce> {
  const petHash = hash(pet);
  const idempotencyHash = sha256(idempotencyKey);
  let attempts = 0;
  const [, insertion, , selection] = await writeIdempotent(() => {
    attempts += 1;
    const statement = (sql: string, ...values: unknown[]) =>
      database.prepare(sql).bind(keyId, idempotencyHash, ...values);
    return database.batch<StoredPet & { isSamePet: number; isOfNow: number }>([
      statement(DELETE_EXPIRED, nowMs - ROW_RETENTION_MS),
      statement(INSERT_PET, ...parameters(pet)),
      statement(INSERT_RECORD, petHash, nowMs),
      statement(SELECT_RECORD, petHash, nowMs),
    ]);
  });
  const record = selection?.results[0];
  if (record === undefined) throw new Error("an idempotency record is missing right after its insertion");
  const { otherPet } = MESSAGES.idempotency_key_reused;
  if (!record.isSamePet) throw new ApiError("idempotency_key_reused", otherPet(RETENTION_MS / 3_600_000));
  // If the result of an attempt was lost, the next one finds the record of its own request.
  const isOwn = insertion?.meta.changes === 1 || (attempts > 1 && record.isOfNow === 1);
  return { id: record.id, petJson: record.petJson, isReplayed: !isOwn };
}

/** Deletes expired records, at most as many as one run may. Returns their number. */
export function deleteExpired(database: D1Database, nowMs: number): Promise<number> {
  return deleteInSteps(database, DELETE_ALL_EXPIRED, nowMs - ROW_RETENTION_MS);
}
