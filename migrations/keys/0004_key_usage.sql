-- The requests of a key on a UTC day, such as 2026-11-20, as its object counted them: src/keys/reports.ts. Totals: a later
-- row replaces an earlier one, and a larger revision is later. `object` is the beginning of the object's id: each preview has objects of
-- its own, and counts for itself. The day comes first, so that a report on all keys reads neighbouring rows. `alerted`: the largest percentage
-- of the day's limit that the log has an alert of.
CREATE TABLE key_usage (
  day TEXT NOT NULL CHECK (length(day) = 10),
  key_id TEXT NOT NULL,
  object TEXT NOT NULL,
  revision INTEGER NOT NULL,
  admitted INTEGER NOT NULL,
  refused_by TEXT NOT NULL CHECK (json_valid(refused_by)),
  busiest TEXT NOT NULL CHECK (json_valid(busiest)),
  last_admitted_ms INTEGER,
  last_refused_ms INTEGER,
  alerted INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (day, key_id, object)
) STRICT, WITHOUT ROWID;
