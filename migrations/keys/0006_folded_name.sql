-- The name in the form in which names are compared (src/operators/names.ts), because SQLite folds the case of ASCII letters only. NULL
-- until the first command that compares names, for a key that was created or restored without it.
ALTER TABLE keys ADD COLUMN folded_name TEXT;
CREATE INDEX keys_by_folded_name ON keys (folded_name);
