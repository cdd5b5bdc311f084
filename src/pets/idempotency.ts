// Creations with an Idempotency-Key, remembered in D1 for a day: all SQL about them is here. One batch is one
// transaction, so the pet is there exactly if it is remembered, and of two at once the second finds the first.

import { writeIdempotent } from "../d1/statements.ts";
import { ApiError } from "../http/errors.ts";
import { MESSAGES } from "../http/messages.ts";
import { sha256 } from "../lib/sha256.ts";
import type { NewPet } from "./schema.ts";
import { PET_JSON, type StoredPet } from "./store.ts";

/** How long clients may rely on a creation's being remembered. */
export const REMEMBERED_MS = 24 * 60 * 60_000;

/**
 * How long its row is kept. It is longer because the clocks of two isolates, or of an isolate and the cron trigger, may differ
 * by a minute, and because a statement may run half a minute after its request arrived.
 */
export const KEPT_MS = REMEMBERED_MS + 5 * 60_000;

/** What one statement deletes, which is what other statements have to wait for. */
const ROWS_PER_STEP = 1_000;

/** What one run deletes at most: every ten minutes, that keeps up with 67 creations a second. */
const STEPS_PER_RUN = 40;

/** What names a creation: the id of the API key, and the client's own name for it. */
export interface CreationName {
  keyId: string;
  idempotencyKey: string;
}

// In all of these, ?1 and ?2 name the creation.
const IS_KNOWN = "EXISTS (SELECT 1 FROM creations WHERE key_id = ?1 AND idempotency_key = ?2)";
const FORGET_ONE = "DELETE FROM creations WHERE key_id = ?1 AND idempotency_key = ?2 AND created_at_ms <= ?3";
const INSERT_PET = `INSERT INTO pets (name, category_id, status) SELECT ?3, ?4, ?5 WHERE NOT ${IS_KNOWN}`;
const REMEMBER = `
  INSERT INTO creations (key_id, idempotency_key, request_hash, pet_id, pet_json, created_at_ms)
  SELECT ?1, ?2, unhex(?3), id, ${PET_JSON}, ?4 FROM pets WHERE id = last_insert_rowid() AND NOT ${IS_KNOWN}`;
const SELECT_CREATION = `
  SELECT request_hash = unhex(?3) AS is_same, CAST(pet_id AS TEXT) AS id, pet_json
  FROM creations WHERE key_id = ?1 AND idempotency_key = ?2`;

const FORGET_OLD = `
  DELETE FROM creations WHERE (key_id, idempotency_key) IN
  (SELECT key_id, idempotency_key FROM creations WHERE created_at_ms <= ?1 ORDER BY created_at_ms LIMIT ?2)`;

interface CreationRow {
  is_same: number;
  id: string;
  pet_json: string;
}

/**
 * Stores a pet under a new id, unless this creation is still remembered: then it gives what was stored
 * then. Throws `idempotency_key_reused` if that was another pet. `nowMs`, Unix time, is when the request arrived.
 */
export async function insertPetOnce(
  database: D1Database,
  pet: NewPet,
  { keyId, idempotencyKey }: CreationName,
  nowMs: number,
): Promise<StoredPet> {
  const { name, categoryId, status = null } = pet;
  // What a pet is made of, not how it was written: a client may order its fields differently the second time.
  const hash = sha256(JSON.stringify([name, `${categoryId}`, status]));
  const results = await writeIdempotent(() => {
    const statement = (sql: string, ...values: unknown[]) =>
      database.prepare(sql).bind(keyId, idempotencyKey, ...values);
    return database.batch<CreationRow>([
      statement(FORGET_ONE, nowMs - KEPT_MS),
      statement(INSERT_PET, name, `${categoryId}`, status),
      statement(REMEMBER, hash, nowMs),
      statement(SELECT_CREATION, hash),
    ]);
  });
  const creation = results.at(-1)?.results[0];
  if (creation === undefined) throw new Error("a creation that was just remembered is not there");
  if (!creation.is_same) {
    throw new ApiError(
      "idempotency_key_reused",
      MESSAGES.idempotency_key_reused.otherPet(REMEMBERED_MS / 3_600_000),
    );
  }
  return { id: creation.id, petJson: creation.pet_json };
}

/** Deletes creations that are no longer remembered, in steps, and not more than a run may. Returns how many. */
export async function forgetOldCreations(database: D1Database, nowMs: number): Promise<number> {
  let forgotten = 0;
  for (let step = 0; step < STEPS_PER_RUN; step += 1) {
    const { meta } = await writeIdempotent(() =>
      database
        .prepare(FORGET_OLD)
        .bind(nowMs - KEPT_MS, ROWS_PER_STEP)
        .run(),
    );
    forgotten += meta.changes;
    if (meta.changes < ROWS_PER_STEP) break;
  }
  return forgotten;
}
