-- What was answered to a creation with an Idempotency-Key: the same request again within a day gets the same answer.
-- Scoped by API key. Of the request there is the SHA-256 of what it asked for.
CREATE TABLE creations (
  key_id TEXT NOT NULL,
  idempotency_key TEXT NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 255),
  request_hash BLOB NOT NULL CHECK (length(request_hash) = 32),
  pet_id INTEGER NOT NULL,
  pet_json TEXT NOT NULL CHECK (json_valid(pet_json)),
  created_at_ms INTEGER NOT NULL,
  PRIMARY KEY (key_id, idempotency_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX creations_by_age ON creations (created_at_ms);
