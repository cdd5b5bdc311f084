-- Pets. The checks repeat what src/pets/schema.ts demands of a request: a row that breaks them can't exist,
-- whoever writes it. AUTOINCREMENT: an id is never given twice, even after its pet is gone.
CREATE TABLE pets (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  category_id INTEGER NOT NULL,
  status TEXT CHECK (status IN ('available', 'pending', 'sold'))
) STRICT;

-- An index ends in the row's id, so this one also serves "the next page of those with a status".
CREATE INDEX pets_by_status ON pets (status);
