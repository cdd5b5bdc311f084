-- API keys. Of the secret there is the SHA-256 and, for people to recognise it by, the last four characters.
-- Limits are stored for enterprise only; those of the other plans are in src/keys/plans.ts.
CREATE TABLE keys (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  plan TEXT NOT NULL CHECK (plan IN ('free', 'pro', 'business', 'enterprise')),
  per_minute INTEGER CHECK (per_minute BETWEEN 1 AND 1000000000),
  per_day INTEGER CHECK (per_day BETWEEN 1 AND 1000000000),
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  last_four TEXT NOT NULL CHECK (length(last_four) = 4),
  created_at_ms INTEGER NOT NULL,
  expires_at_ms INTEGER CHECK (expires_at_ms > created_at_ms),
  CHECK ((plan = 'enterprise') = (per_minute IS NOT NULL)),
  CHECK ((plan = 'enterprise') = (per_day IS NOT NULL))
) STRICT, WITHOUT ROWID;
