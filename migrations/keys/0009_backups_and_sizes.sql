-- Both tables are about the databases, not a part of their contents: no backup has them, and a restore goes into a database that has rows in
-- them (scripts/backup/tables.ts).

-- The latest complete backup of both databases: when it began, and the login name of who made it. At most one row.
CREATE TABLE backups (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  began_at_ms INTEGER NOT NULL CHECK (began_at_ms > 0),
  made_by TEXT NOT NULL
) STRICT;

-- The size of a database, `keys` or `pets`, at its first measurement on a UTC day, such as 2026-11-20 (src/operators/sizes.ts).
CREATE TABLE database_sizes (
  day TEXT NOT NULL CHECK (length(day) = 10),
  contents TEXT NOT NULL,
  bytes INTEGER NOT NULL CHECK (bytes > 0),
  PRIMARY KEY (day, contents)
) STRICT, WITHOUT ROWID;
