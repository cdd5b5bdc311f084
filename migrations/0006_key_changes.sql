-- Every change of a key, and every ban: when, what, from which value to which, by whom. No secrets. Values are texts: a plan with
-- its limits, a name, the last four characters of a secret, a time (RFC 3339, UTC, whole seconds).
CREATE TABLE key_changes (
  id INTEGER PRIMARY KEY,
  key_id TEXT NOT NULL,
  at_ms INTEGER NOT NULL CHECK (at_ms > 0),
  change TEXT NOT NULL
    CHECK (change IN ('created', 'renamed', 'plan', 'expiry', 'rotated', 'revoked', 'banned', 'unbanned')),
  from_value TEXT,
  to_value TEXT,
  changed_by TEXT NOT NULL
) STRICT;

CREATE INDEX key_changes_by_key ON key_changes (key_id, at_ms);
CREATE INDEX key_changes_by_time ON key_changes (at_ms);
CREATE INDEX bans ON key_changes (key_id, at_ms) WHERE change = 'banned';

-- An operator has lifted the bans that end by then: Unix time in milliseconds, NULL for never.
ALTER TABLE keys ADD COLUMN bans_lifted_until_ms INTEGER;

-- The rows of key_changes replace it.
ALTER TABLE keys DROP COLUMN plan_set_at_ms;
