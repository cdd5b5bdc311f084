-- Restores of the database of pets (scripts/cloudflare/time-travel.ts). Their state is here, because a restore replaces all that is in
-- that database. A row without `finished_at_ms` is an unfinished restore, of which there is at most one. The other two columns that
-- may be NULL are set right before the database is restored: a bookmark that undoes it, and the id that it raises ids to.
CREATE TABLE pet_restores (
  began_at_ms INTEGER PRIMARY KEY,
  begun_by TEXT NOT NULL,
  bookmark TEXT NOT NULL,
  undo_bookmark TEXT,
  ids_above INTEGER,
  finished_at_ms INTEGER
) STRICT;
