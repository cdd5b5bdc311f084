-- The last four characters of a replaced secret, by which customers name it; NULL if it was replaced before this migration.
ALTER TABLE replaced_secrets ADD COLUMN last_four TEXT CHECK (length(last_four) = 4);
