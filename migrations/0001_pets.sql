-- Pets. The checks repeat what src/pets/schema.ts demands of a request, for whoever writes past the service.
-- AUTOINCREMENT: an id is never given twice, even after its pet is gone.
CREATE TABLE pets (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255 AND instr(name, char(0)) = 0),
  category_id INTEGER NOT NULL,
  status TEXT CHECK (status IN ('available', 'pending', 'sold'))
) STRICT;

-- An index ends in the row's id, so this one also serves "the next page of those with a status".
CREATE INDEX pets_by_status ON pets (status);
