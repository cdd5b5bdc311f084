-- Restores of the database of pets, which replace all that is in it (scripts/cloudflare/time-travel.ts). At most one row has no
-- `finished_at_ms`. Right before the restore, a bookmark that undoes it, and the id that it raises ids to, are set.
CREATE TABLE pet_restores (
  began_at_ms INTEGER PRIMARY KEY,
  begun_by TEXT NOT NULL,
  bookmark TEXT NOT NULL,
  undo_bookmark TEXT,
  ids_above INTEGER,
  finished_at_ms INTEGER
) STRICT;
