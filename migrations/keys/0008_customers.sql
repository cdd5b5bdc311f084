-- What operators know of the customer of a key: its id in their own system, and a note, also in the form in which notes are compared
-- (src/operators/names.ts). The Worker reads none of it.
ALTER TABLE keys ADD COLUMN ref TEXT CHECK (length(ref) BETWEEN 1 AND 64);
ALTER TABLE keys ADD COLUMN note TEXT CHECK (length(note) BETWEEN 1 AND 200);
ALTER TABLE keys ADD COLUMN folded_note TEXT;
