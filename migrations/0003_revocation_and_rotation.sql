-- Revocation ends a key for good. The row stays, so that whoever still sends the key is told why it no longer works.
ALTER TABLE keys ADD COLUMN revoked_at_ms INTEGER CHECK (revoked_at_ms > 0);

-- Secrets that a rotation has replaced. Each is good until its grace ends, and known as replaced afterwards.
CREATE TABLE replaced_secrets (
  hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
  key_id TEXT NOT NULL REFERENCES keys (id),
  good_until_ms INTEGER NOT NULL CHECK (good_until_ms > 0)
) STRICT, WITHOUT ROWID;

CREATE INDEX replaced_secrets_by_key ON replaced_secrets (key_id);
