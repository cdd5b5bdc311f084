-- API keys. Times are Unix time in milliseconds; NULL is never. `limits`: the key's own, as a JSON object
-- by window, such as {"minute":5000,"day":1000000}, if src/keys/plans.ts has none for its plan.
-- Of a secret, only its SHA-256 and its last four characters are stored. Bans that end by `bans_lifted_until_ms` are lifted.
CREATE TABLE keys (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  plan TEXT NOT NULL,
  limits TEXT CHECK (limits IS NULL OR json_valid(limits)),
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  last_four TEXT NOT NULL CHECK (length(last_four) = 4),
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER CHECK (expires_at_ms > created_at_ms),
  revoked_at_ms INTEGER CHECK (revoked_at_ms > 0),
  bans_lifted_until_ms INTEGER
) STRICT, WITHOUT ROWID;

-- Secrets that a rotation has replaced. Each is valid until its grace ends, and reported as replaced afterwards.
CREATE TABLE replaced_secrets (
  key_id TEXT NOT NULL REFERENCES keys (id),
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  good_until_ms INTEGER NOT NULL CHECK (good_until_ms > 0),
  PRIMARY KEY (key_id, hash)
) STRICT, WITHOUT ROWID;

-- Every change of a key, and every ban: src/operators/changes.ts has the names of changes, and the form of their values.
CREATE TABLE key_changes (
  id INTEGER PRIMARY KEY,
  key_id TEXT NOT NULL,
  at_ms INTEGER NOT NULL CHECK (at_ms > 0),
  change TEXT NOT NULL,
  from_value TEXT,
  to_value TEXT,
  changed_by TEXT NOT NULL
) STRICT;
CREATE INDEX key_changes_by_key ON key_changes (key_id);
CREATE INDEX bans ON key_changes (key_id, at_ms) WHERE change = 'banned';
