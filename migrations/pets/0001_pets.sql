-- Pets. AUTOINCREMENT: an id is never given twice, even after its pet is gone.
CREATE TABLE pets (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255 AND instr(name, char(0)) = 0),
  category_id INTEGER NOT NULL,
  status TEXT
) STRICT;
-- An index ends in the row's id, so this one also serves "the next page of those with a status".
CREATE INDEX pets_by_status ON pets (status);

-- The response to a creation with an Idempotency-Key: within a day, the same request gets it again. Scoped by the id of the API key.
-- Both hashes are SHA-256: of the Idempotency-Key, because a client may send a secret there by mistake, and of the requested values.
CREATE TABLE creations (
  key_id TEXT NOT NULL,
  idempotency_hash BLOB NOT NULL CHECK (length(idempotency_hash) = 32),
  request_hash BLOB NOT NULL CHECK (length(request_hash) = 32),
  pet_id INTEGER NOT NULL,
  pet_json TEXT NOT NULL CHECK (json_valid(pet_json)),
  created_at_ms INTEGER NOT NULL,
  PRIMARY KEY (key_id, idempotency_hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX creations_by_age ON creations (created_at_ms);
